package acpgateway

import (
	"context"
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway/wire"
	"aqueduct/bridge/livefeed"
	"aqueduct/internal/bubbletest"
	"aqueduct/internal/wake"
)

// queueEnv is a queue with nothing watching its hints.
type queueEnv struct {
	*testing.T
	queue
	hints hintFeed
}

func newQueueEnv(t *testing.T) *queueEnv {
	t.Helper()
	return &queueEnv{T: t, queue: queue{room: wake.New()}, hints: hintFeed{hub: livefeed.New(livefeed.Config{})}}
}

// putResult puts a frame that is worth a Turn, with the proxy's number and a size.
func (e *queueEnv) putResult(seq int64, size int) (ok, wanted bool) {
	e.Helper()
	f := newFrame(&wire.PromptResult{}, "run")
	f.seq, f.size = seq, size
	return e.put(f, true, &e.hints)
}

func (e *queueEnv) putUsage(seq int64) {
	e.Helper()
	f := updateFrame(e.T, "", aUsage)
	f.seq, f.size = seq, 1
	if ok, _ := e.put(f, false, &e.hints); !ok {
		e.Fatal("a frame does not fit")
	}
}

func seqs(frames []frame) (all []int64) {
	for _, f := range frames {
		all = append(all, f.seq)
	}
	return all
}

func equal[T comparable](a []T, b ...T) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// If this fails, output of an agent is shown in another order, or not at all until the next prompt.
func TestQueueKeepsTheOrder(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	if _, wanted := e.putResult(1, 1); !wanted {
		t.Error("a frame without a reader begins no Turn")
	}
	reader := &turn{}
	if came := e.attach(reader); came != 1 {
		t.Errorf("%d frames came before the reader", came)
	}
	if _, wanted := e.putResult(2, 1); wanted {
		t.Error("a frame begins a second Turn beside its reader")
	}
	frames, full := e.take()
	if full || !equal(seqs(frames), 1, 2) || e.read != 2 || !e.isEmpty() || e.bytes != 0 {
		t.Errorf("taken are %v, full %v, read up to %d", seqs(frames), full, e.read)
	}
	if frames[0].at != 1 || frames[1].at != 2 {
		t.Errorf("their places are %d and %d", frames[0].at, frames[1].at)
	}
	if e.detach(&turn{}) || e.turn() != reader || !e.detach(reader) || e.turn() != nil {
		t.Error("another Turn than the reader ends the reading, or the reader does not")
	}
}

// If this fails, what follows the end of an answer is lost, or stands before what the link brought meanwhile.
func TestQueuePutBack(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	for seq := range int64(4) {
		e.putResult(seq+1, 10)
	}
	frames, _ := e.take()
	e.putResult(5, 10)
	e.putBack(frames[1], frames)
	if e.read != 2 || e.bytes != 30 {
		t.Errorf("read up to %d, %d bytes wait", e.read, e.bytes)
	}
	again, _ := e.take()
	if !equal(seqs(again), 3, 4, 5) || e.read != 5 {
		t.Errorf("the next Turn gets %v, read up to %d", seqs(again), e.read)
	}
	e.putBack(frame{at: 99}, again)
	if !e.isEmpty() {
		t.Error("frames are put back behind one that is not among them")
	}
	e.putBack(again[2], again)
	if !e.isEmpty() || e.read != 5 {
		t.Error("behind the last frame something is put back")
	}
}

// If this fails, a flood of frames takes the server's memory, or one large frame never gets through.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	if ok, _ := e.putResult(1, queueBytes+1); !ok {
		t.Error("an empty queue refuses a large frame")
	}
	if ok, wanted := e.putResult(2, 1); ok || wanted {
		t.Error("a full queue takes a frame")
	}
	if frames, full := e.take(); len(frames) != 1 || !full {
		t.Errorf("taken are %d frames, full %v", len(frames), full)
	}
	if _, full := e.take(); full {
		t.Error("the queue is full for ever")
	}
	e.putResult(3, queueBytes-1)
	if ok, _ := e.putResult(4, 1); !ok {
		t.Error("a frame that fits exactly is refused")
	}
}

// If this fails, an old proxy without a reader fills the queue with reports, which no prompt ever empties.
func TestManySilentFramesBeginATurn(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	f := updateFrame(t, "", aMode)
	for i := range silentFrames + 1 {
		if _, wanted := e.put(f, false, &e.hints); wanted != (i == silentFrames) {
			t.Fatalf("frame %d begins a Turn: %v", i+1, wanted)
		}
	}
}

// If this fails, a proxy forgets frames that are not committed, and a crash of the server loses them.
func TestQueueAcknowledges(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	e.ack(mark{seq: 5}, true)
	e.ack(mark{seq: 3}, true)
	if got := e.ackedUpTo(); got != 5 {
		t.Errorf("acknowledged is %d", got)
	}
	e.ack(mark{seq: 9}, false)
	if got := e.ackedUpTo(); got != 5 {
		t.Errorf("a mark of an earlier start acknowledges %d", got)
	}
	e.restart()
	if got := e.ackedUpTo(); got != 0 {
		t.Errorf("after a restart %d is acknowledged", got)
	}
	e.queue.hints = []hint{{1, []byte("a")}, {2, []byte("b")}, {5, []byte("c")}}
	var shown []string
	for _, h := range e.ack(mark{at: 3}, false) {
		shown = append(shown, string(h.body))
	}
	if strings.Join(shown, "") != "ab" || len(e.queue.hints) != 1 {
		t.Errorf("shown is %q, %d wait", shown, len(e.queue.hints))
	}
}

// If this fails, a dead agent's reports begin a Run, or an ack for them makes the proxy forget output before them.
func TestQueueDiscardsStaleFrames(t *testing.T) {
	t.Parallel()
	e := newQueueEnv(t)
	e.putUsage(1)
	e.putUsage(2)
	e.putResult(3, 1)
	e.putUsage(4)
	reader := &turn{}
	e.attach(reader)
	if n, _, _ := e.discardStale(); n != 0 {
		t.Errorf("%d frames are taken from the reader", n)
	}
	e.detach(reader)
	e.read = 7
	if n, _, _ := e.discardStale(); n != 0 {
		t.Errorf("%d frames are discarded before what was read is committed", n)
	}
	e.read = 0
	if n, seq, _ := e.discardStale(); n != 2 || seq != 2 || e.ackedUpTo() != 2 || e.bytes != 2 {
		t.Errorf("%d discarded up to %d, acknowledged %d, %d bytes wait", n, seq, e.ackedUpTo(), e.bytes)
	}
	if n, _, _ := e.discardStale(); n != 0 {
		t.Errorf("%d frames before a result are discarded", n)
	}
	if frames, _ := e.take(); !equal(seqs(frames), 3, 4) {
		t.Errorf("left are %v", seqs(frames))
	}
}

// If this fails, frames of an old proxy are lost while the database is away, or its link blocks for ever.
func TestQueueWaitsForRoomWhileTheStoreStalls(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		e := newQueueEnv(t)
		e.putResult(1, queueBytes)
		waits := func(ctx context.Context, stalled bool) (returned chan struct{}) {
			returned = make(chan struct{})
			go func() {
				defer close(returned)
				e.waitForRoom(ctx, 1, func() bool { return stalled })
			}()
			bubbletest.Wait()
			return returned
		}
		over := func(returned chan struct{}) bool {
			bubbletest.Wait()
			select {
			case <-returned:
				return true
			default:
				return false
			}
		}
		if !over(waits(t.Context(), false)) {
			t.Fatal("it waits although the store works")
		}
		ctx, cancel := context.WithCancel(t.Context())
		left := waits(ctx, true)
		time.Sleep(time.Minute)
		if over(left) {
			t.Fatal("it does not wait for room")
		}
		cancel()
		if !over(left) {
			t.Fatal("it outlives its link")
		}
		blocked := waits(t.Context(), true)
		e.take()
		if !over(blocked) {
			t.Fatal("it waits although there is room")
		}
	})
}
