package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"

	keywork "github.com/keywork/keywork/sdk/go"
)

// fields are the members of an event.
type fields map[string]any

var writing sync.Mutex

// emit writes one event: a line of its own, flushed at once.
func emit(event string, members fields) {
	members["event"] = event
	line, err := json.Marshal(members)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	writing.Lock()
	defer writing.Unlock()
	// A runner that has gone ends this process by its stdin.
	_, _ = os.Stdout.Write(append(line, '\n'))
}

// fault: a call failed with an error of the SDK.
func fault(call string, err error) {
	var own *keywork.Error
	if !errors.As(err, &own) {
		refuse(call, "INTERNAL", err.Error())
		return
	}
	wrong := []string{}
	for _, violation := range own.Violations() {
		wrong = append(wrong, violation.Field)
	}
	emit("error", fields{
		"call": call, "code": codeName(own.Code()), "reason": own.Reason(), "retryable": own.IsRetryable(),
		"no_side_effects": own.HasNoSideEffects(), "fields": wrong, "message": own.Error(),
	})
}

// refuse: this program cannot follow a command.
func refuse(call, name, message string) {
	emit("error", fields{"call": call, "code": name, "reason": "", "fields": []string{}, "message": message})
}

// codeName is a gRPC code's name in the contract's spelling.
func codeName(c codes.Code) string { return code.Code(c).String() }
