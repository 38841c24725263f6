package workers

// slots hands out small numbers; one that was given back is handed out again before a new one is made.
type slots struct {
	freed []int32
	next  int32
}

func (s *slots) take() int32 {
	if n := len(s.freed); n > 0 {
		slot := s.freed[n-1]
		s.freed = s.freed[:n-1]
		return slot
	}
	s.next++
	return s.next - 1
}

func (s *slots) free(slot int32) { s.freed = append(s.freed, slot) }
