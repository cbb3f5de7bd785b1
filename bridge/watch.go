package bridge

import "context"

// Ready is Next without waiting, for a thread's Feed: nothing when nothing is new. The Items
// are valid until the next call.
func (f *Feed) Ready(ctx context.Context) ([]Item, error) {
	f.items = f.items[:0]
	rows, err := f.tail.Ready(ctx)
	if err == nil {
		err = f.takeRows(ctx, rows)
	}
	return f.items, err
}

// Bell rings when Ready may have more, and when anything else about the Session changed.
func (f *Feed) Bell() <-chan struct{} { return f.tail.Bell() }
