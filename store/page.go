package store

// Page is a window of a listing. Before and After are ids of rows, "" for none: what
// comes before or after that row in the order the listing has. When there is more than
// Limit, the rows nearest to it are given.
type Page struct {
	Limit  int // 0 means DefaultPageLimit; capped at MaxPageLimit
	Before string
	After  string
	// MaxBytes ends a page of a transcript: the message that reaches it is the last one given, so there is always one. 0 is no
	// bound. Other listings take no notice of it.
	MaxBytes int
}

const (
	// DefaultPageLimit is what a listing gives when its Limit is not set.
	DefaultPageLimit = 50
	// MaxPageLimit bounds one answer, so that no caller can make us hold a whole table.
	MaxPageLimit = 1000
)

// Size is the number of rows a page asks for, within its bounds.
func (p Page) Size() int {
	if p.Limit <= 0 {
		return DefaultPageLimit
	}
	return min(p.Limit, MaxPageLimit)
}
