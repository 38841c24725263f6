package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const statTail = " S %d 1 1 0 -1 4194304 88 77 0 0 %d %d %d %d 20 0 5 0 4711 8392704 1234 18446744073709551615"

func statLine(pid int, name string, parent, utime, stime, cutime, cstime int) string {
	return fmt.Sprintf("%d (%s)"+statTail+"\n", pid, name, parent, utime, stime, cutime, cstime)
}

// proc(5), /proc/pid/stat
func TestStatLineIsReadWhateverTheNameOfTheProcess(t *testing.T) {
	tests := []struct{ name, process string }{
		{"a plain name", "nginx"},
		{"a name with blanks", "smg launch 3"},
		{"a name that looks like fields", "a) S 9 9 (b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := parseStat([]byte(statLine(42, tt.process, 7, 100, 20, 3, 4)))
			require.NoError(t, err)
			require.Equal(t, stat{pid: 42, parent: 7, cpu: 1270 * time.Millisecond}, s)
		})
	}
}

func TestStatLineThatIsCutIsAnError(t *testing.T) {
	whole := statLine(42, "nginx", 7, 100, 20, 3, 4)
	for _, text := range []string{"", "42", "42 (nginx", "42 (nginx) S 7 1", strings.Replace(whole, "100", "x", 1), "x" + whole} {
		_, err := parseStat([]byte(text))
		require.Error(t, err, text)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte(statLine(42, "a) (b", 7, 1, 2, 3, 4)))
	f.Add([]byte(")("))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := parseStat(text); err != nil && s.pid < 0 {
			t.Fatal("an error with a process")
		}
		_ = statusBytes(text, "VmRSS")
	})
}

func TestTreeIsTheProcessAndAllThatDescendFromIt(t *testing.T) {
	dir := t.TempDir()
	for pid, parent := range map[int]int{10: 1, 11: 10, 12: 11, 13: 10, 20: 1, 21: 20} {
		own := filepath.Join(dir, strconv.Itoa(pid))
		require.NoError(t, os.Mkdir(own, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(own, "stat"), []byte(statLine(pid, "p", parent, 1, 0, 0, 0)), 0o600))
	}
	tree, err := processTree(dir, 10)
	require.NoError(t, err)
	var pids []int
	for _, s := range tree {
		pids = append(pids, s.pid)
	}
	require.ElementsMatch(t, []int{10, 11, 12, 13}, pids)

	_, err = processTree(dir, 99)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = processTree(filepath.Join(dir, "none"), 10)
	require.ErrorContains(t, err, "unsupported")
}

func TestStatusValuesAreInKibibytes(t *testing.T) {
	text := []byte("Name:\tVmRSS: 1 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nVmData:\t  x kB\n")
	require.EqualValues(t, 1<<20, statusBytes(text, "VmRSS"))
	require.EqualValues(t, 2<<20, statusBytes(text, "VmHWM"))
	require.Zero(t, statusBytes(text, "VmData"))
	require.Zero(t, statusBytes(text, "VmSwap"))
}

func TestUsageOfAProcessThatWorksGrows(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("needs /proc")
	}
	cmd := exec.Command("sh", "-c", "while :; do :; done & wait") // it is the child that works
	tie(cmd)
	require.NoError(t, cmd.Start())
	defer func() {
		kill(cmd)
		_ = cmd.Wait()
	}()
	require.Eventually(t, func() bool {
		u, err := treeUsage(cmd.Process.Pid)
		return err == nil && u.CPU >= 2*tick && u.RSS > 0 && u.Peak >= u.RSS
	}, 10*time.Second, 10*time.Millisecond)
}
