package keywork

import (
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// toDuration reads a duration of the wire; a negative one, which no server sends, counts as zero.
func toDuration(wire *durationpb.Duration) time.Duration {
	if wire == nil {
		return 0
	}
	return max(wire.AsDuration(), 0)
}

// fromDuration writes one that zero leaves unset.
func fromDuration(duration time.Duration) *durationpb.Duration {
	if duration == 0 {
		return nil
	}
	return durationpb.New(duration)
}

// toTime reads a time of the wire; unset is the zero time.
func toTime(wire *timestamppb.Timestamp) time.Time {
	if wire == nil {
		return time.Time{}
	}
	return wire.AsTime()
}

// fromTime writes a time; the zero time is unset.
func fromTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// nameOf is the contract's name of an enum's value, without the enum's prefix.
func nameOf(names map[int32]string, value int, prefix string) string {
	name, known := names[int32(value)]
	if !known {
		return strconv.Itoa(value)
	}
	return strings.TrimPrefix(name, prefix)
}
