package keywork

import "testing"

func TestOnlyASecondSignalReleasesEverything(t *testing.T) {
	given := orders{bell: make(chan struct{}, 1)}
	given.give(orderDrain)
	for _, want := range []order{orderDrain, orderReleaseAll} {
		given.signalled()
		if got := given.now(); got != want {
			t.Fatalf("the order is %v, not %v", got, want)
		}
	}
}
