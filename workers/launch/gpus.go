package launch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// gpuSlices returns, for each worker, the variables that show it its own GPUs: worker r of those with n GPUs each gets the
// numbers r·n to r·n+n-1. A variable that is set is the pool of which the numbers are an index; without one they are the GPUs.
//
// CUDA_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES mean the same level and are cut alike. ROCR_VISIBLE_DEVICES is a level below: it
// is cut if it is the only one; otherwise the other ones count within what it shows.
func gpuSlices(environ []string, workers, n int) ([][]string, error) {
	const cuda, hip, rocr = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
	pools := map[string][]string{}
	for _, name := range []string{cuda, hip, rocr} {
		if pool := gpuPool(environ, name); len(pool) > 0 && (name != rocr || len(pools) == 0) {
			pools[name] = pool
		}
	}
	if len(pools) == 0 {
		pools[cuda] = nil
	}
	slicesOf := make([][]string, workers)
	for name, pool := range pools {
		for rank := range workers {
			gpus, err := gpuSlice(name, pool, rank, n)
			if err != nil {
				return nil, err
			}
			slicesOf[rank] = append(slicesOf[rank], name+"="+strings.Join(gpus, ","))
		}
	}
	for _, vars := range slicesOf {
		slices.Sort(vars)
	}
	return slicesOf, nil
}

func gpuSlice(name string, pool []string, rank, n int) (gpus []string, err error) {
	first, last := rank*n, rank*n+n-1
	if pool != nil && last >= len(pool) {
		return nil, fmt.Errorf("%s names %d GPUs, and worker %d of those with %d each needs numbers %d to %d of them (counted from 0)",
			name, len(pool), rank, n, first, last)
	}
	for i := first; i <= last; i++ {
		if pool == nil {
			gpus = append(gpus, strconv.Itoa(i))
			continue
		}
		gpus = append(gpus, pool[i])
	}
	return gpus, nil
}

// gpuPool are the GPUs that a variable names, nil if it is unset or empty.
func gpuPool(environ []string, name string) (pool []string) {
	value := ""
	for _, v := range environ {
		if set, ok := strings.CutPrefix(v, name+"="); ok {
			value = set // the last one wins, as in a process
		}
	}
	for gpu := range strings.SplitSeq(value, ",") {
		if gpu = strings.TrimSpace(gpu); gpu != "" {
			pool = append(pool, gpu)
		}
	}
	return pool
}
