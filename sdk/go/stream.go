package keywork

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/keywork/keywork/sdk/go/keyworkv1"
)

const (
	// streamOffers is how many offers are unanswered at a time at most; servers stop reading at 4,096.
	streamOffers = 4_000
	// messageOffers and messageRoom bound one message.
	messageOffers = 250
	messageRoom   = 3 << 20
	// itemPause is the least wait before an offer is made again after its own error.
	itemPause = 100 * time.Millisecond
)

// SubmitMany offers many jobs on one stream, and answers in their order. A bad one spoils no other.
//
// Unanswered offers are made again, with the same RequestIDs, when the stream breaks; an offer whose Err is not nil has
// failed for good, or stayed unanswered for the client's SubmitDeadline or until the context ended.
func (c *Client) SubmitMany(ctx context.Context, submits []Submit) []SubmitResult {
	results := make([]SubmitResult, len(submits))
	told := make([]bool, len(submits))
	for place, result := range c.SubmitStream(ctx, slices.Values(submits)) {
		results[place], told[place] = result, true
	}
	for place := range submits {
		// The context ended before it was its turn.
		if !told[place] {
			results[place].Err = ofContext(ctx, false)
		}
	}
	return results
}

// SubmitStream offers jobs as they come, for sources without an end, and yields each answer as soon as it is there,
// with the offer's place in the order. Offers wait while many are unanswered. Leaving the loop ends it; where a source
// is waiting at that time, its goroutine ends with the source's next job.
func (c *Client) SubmitStream(ctx context.Context, submits iter.Seq[Submit]) iter.Seq2[int, SubmitResult] {
	return func(yield func(int, SubmitResult) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		offers := newSource()
		go offers.pass(ctx, c, submits)
		p := &pump{
			client:   c,
			patience: newPatience(c),
			source:   offers,
			offers:   offers.offers,
			flying:   make(map[uint64]*flight),
			yield:    yield,
		}
		p.run(ctx)
	}
}

// source makes offers of submits, in a goroutine of its own.
type source struct {
	offers chan *offer
	// panicked is what it panicked with; to be read when the offers have ended.
	panicked any
}

func newSource() *source { return &source{offers: make(chan *offer, messageOffers)} }

func (s *source) pass(ctx context.Context, c *Client, submits iter.Seq[Submit]) {
	defer close(s.offers)
	// Here it would end the program, whatever the caller of SubmitStream recovers from.
	defer func() { s.panicked = recover() }()
	for submit := range submits {
		// It may lie in a buffer that the source uses again, as a Scanner does, before this is sent.
		submit.Payload = bytes.Clone(submit.Payload)
		select {
		case s.offers <- c.offer(ctx, submit):
		case <-ctx.Done():
			return
		}
	}
}

// pump is the state of a SubmitStream, which outlives any one connection.
type pump struct {
	client   *Client
	patience *patience
	source   *source
	// offers is nil when there are no more.
	offers <-chan *offer
	next   uint64
	// flying are the unanswered ones, by correlation id.
	flying map[uint64]*flight
	// due are those of them that are to be sent now; later, those that wait until their time.
	due   []uint64
	later []uint64
	yield func(int, SubmitResult) bool
	// left: nobody listens any more.
	left bool
}

// flight is an offer that is not answered yet.
type flight struct {
	offer *offer
	since time.Time
	again time.Time
	doubt bool
}

type submitDuplex = duplex[keyworkv1.SubmitStreamRequest, keyworkv1.SubmitStreamResponse]

func (p *pump) run(ctx context.Context) {
	for {
		if len(p.flying) == 0 {
			// There is nothing to connect for, and nothing that has waited.
			p.wait(ctx)
			p.patience.renew()
		}
		if p.isDone() {
			return
		}
		err := p.connection(ctx)
		if err == nil {
			return
		}
		p.due, p.later = p.due[:0], p.later[:0]
		if len(p.flying) == 0 && err.isOutage() {
			// There is nothing to try again.
			continue
		}
		for _, flight := range p.flying {
			flight.doubt = flight.doubt || !err.nothingHappened
		}
		if err := p.patience.after(ctx, err); err != nil {
			p.giveUp(ctx, err)
			return
		}
		for id := range p.flying {
			p.due = append(p.due, id)
		}
		slices.Sort(p.due)
	}
}

// wait waits for an offer, or until there will be none.
func (p *pump) wait(ctx context.Context) {
	for len(p.flying) == 0 && p.offers != nil && !p.left {
		select {
		case offer, more := <-p.offers:
			p.took(offer, more)
		case <-ctx.Done():
			return
		}
	}
}

func (p *pump) isDone() bool {
	return p.left || (p.offers == nil && len(p.flying) == 0)
}

// connection works on one stream until everything is answered (nil) or it breaks.
func (p *pump) connection(ctx context.Context) *Error {
	streamContext, cancel := context.WithCancel(ctx)
	defer cancel()
	p.patience.begin()
	stream, err := p.client.work.SubmitStream(streamContext)
	switch {
	case ctx.Err() != nil:
		return ofContext(ctx, false)
	case err != nil:
		// It did not get as far as a server.
		return errorOf(err, answer{sent: false})
	}
	open := openDuplex(streamContext, cancel, stream, 2)
	defer open.close()
	broken := p.exchange(ctx, open)
	if broken != nil && broken.isOutage() {
		p.client.pool.turnAway(p.patience.place)
	}
	return broken
}

func (p *pump) exchange(ctx context.Context, open *submitDuplex) *Error {
	limit := p.client.options.CallTimeout
	heard := time.Now()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for !p.isDone() {
		now := time.Now()
		if len(p.flying) == 0 {
			// While no answer is due, neither silence nor patience counts.
			heard = now
			p.patience.renew()
		} else if now.Sub(heard) >= limit {
			return unanswered("the server fell silent on the submit stream")
		}
		p.ripen(now)
		p.send(open)
		timer.Reset(p.wake(heard.Add(limit)).Sub(now))
		select {
		case down, more := <-open.down:
			if !more {
				return endOf(ctx, open)
			}
			heard = time.Now()
			p.patience.renew()
			p.answered(ctx, down)
		case offer, more := <-p.wanted():
			p.took(offer, more)
			p.takeReady()
		case <-open.room:
		case <-timer.C:
		case <-ctx.Done():
			return ofContext(ctx, len(p.flying) > 0)
		}
	}
	return nil
}

// wanted gives more offers, as far as they may be in flight.
func (p *pump) wanted() <-chan *offer {
	if len(p.flying) >= streamOffers {
		return nil
	}
	return p.offers
}

func endOf(ctx context.Context, open *submitDuplex) *Error {
	switch {
	case ctx.Err() != nil:
		return ofContext(ctx, true)
	case open.err != nil:
		return open.err
	default:
		return unanswered("the server ended the submit stream")
	}
}

// took notes an offer.
func (p *pump) took(offer *offer, more bool) {
	if !more {
		if p.source.panicked != nil {
			panic(p.source.panicked)
		}
		p.offers = nil
		return
	}
	id := p.next
	p.next++
	if offer.wrong != nil {
		p.tell(id, offer.endAsResult(Submitted{}, offer.wrong))
		return
	}
	p.flying[id] = &flight{offer: offer, since: time.Now()}
	p.due = append(p.due, id)
}

// takeReady notes the offers that are there already, as far as a message takes them.
func (p *pump) takeReady() {
	for len(p.due) < messageOffers && !p.left {
		select {
		case offer, more := <-p.wanted():
			p.took(offer, more)
		default:
			return
		}
	}
}

// send sends what is due, as far as there is room.
func (p *pump) send(open *submitDuplex) {
	for len(p.due) > 0 && open.hasRoom() {
		message := p.message()
		open.offer(message)
		p.due = slices.Delete(p.due, 0, len(message.GetOffers()))
	}
}

// message is the next one: what is due, as far as one message takes it.
func (p *pump) message() *keyworkv1.SubmitStreamRequest {
	message := new(keyworkv1.SubmitStreamRequest)
	bytes := 0
	for _, id := range p.due {
		request := p.flying[id].offer.request
		bytes += proto.Size(request)
		if len(message.Offers) == messageOffers || len(message.Offers) > 0 && bytes > messageRoom {
			break
		}
		message.Offers = append(message.Offers, &keyworkv1.SubmitOffer{CorrelationId: id, Submit: request})
	}
	return message
}

// ripen makes due what has waited long enough.
func (p *pump) ripen(now time.Time) {
	p.later = slices.DeleteFunc(p.later, func(id uint64) bool {
		ripe := !p.flying[id].again.After(now)
		if ripe {
			p.due = append(p.due, id)
		}
		return ripe
	})
}

func (p *pump) wake(silence time.Time) time.Time {
	for _, id := range p.later {
		if again := p.flying[id].again; again.Before(silence) {
			silence = again
		}
	}
	return silence
}

func (p *pump) answered(ctx context.Context, message *keyworkv1.SubmitStreamResponse) {
	for _, result := range message.GetResults() {
		p.result(ctx, result)
	}
}

func (p *pump) result(ctx context.Context, wire *keyworkv1.SubmitOfferResult) {
	id := wire.GetCorrelationId()
	flight := p.flying[id]
	if flight == nil {
		return
	}
	submitted, err := flight.offer.readItem(wire.GetResult())
	if err != nil && err.isOutage() {
		flight.again = time.Now().Add(max(err.retryAfter, itemPause))
		flight.doubt = flight.doubt || !err.nothingHappened
		if flight.again.Before(flight.since.Add(p.client.options.SubmitDeadline)) {
			p.later = append(p.later, id)
			p.client.warnOfOutage(ctx, p.patience.place, err)
			return
		}
	}
	delete(p.flying, id)
	if err != nil {
		err = err.withDoubt(flight.doubt)
	}
	p.tell(id, flight.offer.endAsResult(submitted, err))
}

func (p *pump) tell(id uint64, result SubmitResult) {
	if !p.left && !p.yield(int(id), result) {
		p.left = true
	}
}

// giveUp: no server could be reached for too long, or it refuses the stream. Everything ends with that error.
func (p *pump) giveUp(ctx context.Context, err *Error) {
	for id, flight := range p.flying {
		p.tell(id, flight.offer.endAsResult(Submitted{}, err.withDoubt(flight.doubt)))
	}
	clear(p.flying)
	unsent := *err
	unsent.nothingHappened = true
	for p.offers != nil && !p.left {
		select {
		case offer, more := <-p.offers:
			if more {
				offer.wrong = &unsent
			}
			p.took(offer, more)
		case <-ctx.Done():
			return
		}
	}
}
