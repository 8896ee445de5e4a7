package keywork

import "time"

// warnEvery is how often an outage that lasts is warned of.
const warnEvery = 30 * time.Second

// outage is warned of at once, and then seldom.
type outage struct {
	// warned is when that was last; zero where there is none to warn of.
	warned time.Time
}

func (o *outage) isDue(now time.Time) bool {
	return o.warned.IsZero() || now.Sub(o.warned) >= warnEvery
}

// isToBeWarnedOf is isDue, for who warns then.
func (o *outage) isToBeWarnedOf(now time.Time) bool {
	due := o.isDue(now)
	if due {
		o.warned = now
	}
	return due
}

func (o *outage) isOver() { o.warned = time.Time{} }
