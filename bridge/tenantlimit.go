package bridge

import (
	"sync"
	"time"
)

// tenantCountedFor is how long the sum of a tenant's bytes is used. What this replica adds meanwhile is
// added to it; what others add is seen after that.
const tenantCountedFor = 10 * time.Second

// tenants remembers how many bytes the logs of each tenant hold, so that a prompt does not add up all
// threads.
type tenants struct {
	mu sync.Mutex
	by map[string]tenantBytes
}

type tenantBytes struct {
	bytes int64
	at    time.Time
}

// added counts what a Run that ended here has written.
func (t *tenants) added(tenant string, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b, known := t.by[tenant]; known {
		b.bytes += bytes
		t.by[tenant] = b
	}
}

// remembered is the sum, and whether it is to be counted again: when it is old, or when it would refuse
// and is not of this moment, as a thread may have been deleted. The first who finds that counts; others
// go by the old sum.
func (t *tenants) remembered(tenant string, most int64) (bytes int64, again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b, known := t.by[tenant]
	age := time.Since(b.at)
	if known && age < tenantCountedFor && (b.bytes < most || age < countedFor) {
		return b.bytes, false
	}
	if known {
		b.at = time.Now()
		t.by[tenant] = b
	}
	return b.bytes, true
}

func (t *tenants) counted(tenant string, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.by[tenant]; !known && len(t.by) >= maxCounted {
		clear(t.by)
	}
	t.by[tenant] = tenantBytes{bytes, time.Now()}
}
