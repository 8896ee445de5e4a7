package keywork

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
)

// faults are what is wrong with a request or with options, found before anything is sent. They are told like the
// server's: all at once, each with its field.
type faults []Violation

func (f *faults) add(field, format string, args ...any) {
	*f = append(*f, Violation{field, fmt.Sprintf(format, args...)})
}

// err is nil where nothing is wrong.
func (f faults) err() *Error {
	if len(f) == 0 {
		return nil
	}
	texts := each(f, func(fault Violation) string { return fault.Field + ": " + fault.Description })
	e := localError(codes.InvalidArgument, "%s", strings.Join(texts, "; "))
	e.reason = ReasonInvalidField
	e.violations = f
	return e
}

// text: what is no UTF-8 cannot be written to the wire.
func (f *faults) text(field, text string) {
	if !utf8.ValidString(text) {
		f.add(field, "must be UTF-8, not %q", text)
	}
}

// limit is how long something may take; zero stands for the default.
func (f *faults) limit(field string, given, otherwise time.Duration) {
	if given < 0 {
		f.add(field, "must be positive, or 0 for the default of %v, not %v", otherwise, given)
	}
}

// grace is one that may be none.
func (f *faults) grace(field string, given time.Duration) {
	if given < 0 && given != NoGrace {
		f.add(field, "must not be negative, or be NoGrace, not %v", given)
	}
}

// count is how many of something; zero stands for the default.
func (f *faults) count(field string, given, most int, otherwise string) {
	if given < 0 || given > most {
		f.add(field, "must be from 1 to %s, or 0 for %s, not %s", grouped(most), otherwise, grouped(given))
	}
}

// number is one that a server checks; here it is only kept from becoming another on the wire.
func (f *faults) number(field string, given int, bounds string) {
	if given < 0 || given > math.MaxInt32 {
		f.add(field, "must be %s, not %s", bounds, grouped(given))
	}
}

// grouped writes a number as people do: 100,000.
func grouped(number int) string {
	digits := fmt.Sprint(number)
	sign := strings.TrimRight(digits, "0123456789")
	digits = strings.TrimPrefix(digits, sign)
	for place := len(digits) - 3; place > 0; place -= 3 {
		digits = digits[:place] + "," + digits[place:]
	}
	return sign + digits
}
