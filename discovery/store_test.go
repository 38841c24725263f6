package discovery

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/smg-go/smg/workers"
)

// stands are pods that stand for workers: "a:1 a:2 b:1" are pods a and b. An address is the pod's name and a port, its owner is the
// pod's name and, behind it, how often it was replaced: "a'".
func stands(text string) map[string]*kept {
	pods := map[string]*kept{}
	for item := range strings.FieldsSeq(text) {
		owner, port, _ := strings.Cut(item, ":")
		key := strings.TrimRight(owner, "'")
		if pods[key] == nil {
			pods[key] = &kept{uid: owner}
		}
		pods[key].wanted = append(pods[key].wanted, Wanted{Claim: Claim{key + ":" + port, owner}, Spec: workers.NewSpec(key + ":" + port)})
	}
	return pods
}

func claims(text string) []Claim {
	var all []Claim
	for _, k := range stands(text) {
		for _, w := range k.wanted {
			all = append(all, w.Claim)
		}
	}
	return all
}

// DECISIONS.md 52; discovery.md, section 5
func TestAListReplacesTheStoreInOneStep(t *testing.T) {
	tests := []struct {
		name      string
		before    string
		lists     []string // one after the other
		held      []int    // after each
		wanted    string   // after the last
		withdrawn string   // by the last
		claimed   string
	}{
		{"what is new is claimed", "a:1", []string{"a:1 b:1"}, []int{0}, "a:1 b:1", "", "b:1"},
		{"half of the workers may go at once", "a:1 b:1", []string{"a:1"}, []int{0}, "a:1", "b:1", ""},
		{"more than half stay for now", "a:1 b:1 c:1", []string{"a:1"}, []int{2}, "a:1 b:1 c:1", "", ""},
		{"what is new comes at once nevertheless", "a:1 b:1", []string{"c:1"}, []int{2}, "a:1 b:1 c:1", "", "c:1"},
		{"a second list that agrees takes them away", "a:1 b:1", []string{"", ""}, []int{2, 0}, "", "a:1 b:1", ""},
		{"a second list that agrees in part takes away that part", "a:1 b:1 c:1", []string{"", "c:1"}, []int{3, 0}, "c:1", "a:1 b:1", ""},
		{"a second list that has all changes nothing", "a:1 b:1", []string{"", "a:1 b:1"}, []int{2, 0}, "a:1 b:1", "", ""},
		{"a second list that lacks others is in doubt again", "a:1 b:1 c:1", []string{"c:1", "b:1"}, []int{2, 2}, "a:1 b:1 c:1", "", ""},
		{"a replaced pod goes and comes", "a:1 b:1", []string{"a':1 b:1"}, []int{0}, "a':1 b:1", "a:1", "a':1"},
		{"all pods replaced, or a server that is confused: both are wanted for now", "a:1", []string{"a':1"}, []int{1}, "a:1 a':1", "", "a':1"},
		{"ports of one pod count as workers", "a:1 a:2 a:3", []string{"a:1"}, []int{2}, "a:1 a:2 a:3", "", ""},
		{"the first list is never in doubt", "", []string{""}, []int{0}, "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore()
			first, _ := s.replace(stands(tt.before), false)
			require.True(t, first.Alters, "the first list says that there is something to go by now")
			var last Change
			for i, list := range tt.lists {
				var held int
				last, held = s.replace(stands(list), i > 0)
				require.Equal(t, tt.held[i], held)
			}
			wanted, ok := s.wanted()
			require.True(t, ok)
			var have []Claim
			for _, w := range wanted {
				have = append(have, w.Claim)
			}
			require.ElementsMatch(t, claimsInOrder(tt.wanted), have)
			require.ElementsMatch(t, claimsInOrder(tt.withdrawn), last.Withdrawn)
			require.ElementsMatch(t, claimsInOrder(tt.claimed), last.Claimed)
			require.Equal(t, len(last.Withdrawn)+len(last.Claimed) > 0, last.Alters)
		})
	}
}

// claimsInOrder reads "a:1 a':1", in which a pod and the one that replaced it are both there.
func claimsInOrder(text string) []Claim {
	var all []Claim
	for item := range strings.FieldsSeq(text) {
		all = append(all, claims(item)...)
	}
	return all
}

// DECISIONS.md 52: a list that is made sooner, because the version was too old again, does not confirm the one before.
func TestAListThatComesTooSoonConfirmsNothing(t *testing.T) {
	s := newStore()
	s.replace(stands("a:1 b:1"), false)
	for range 3 {
		c, held := s.replace(stands(""), false)
		require.Equal(t, Change{}, c)
		require.Equal(t, 2, held)
	}
	c, held := s.replace(stands(""), true)
	require.Len(t, c.Withdrawn, 2)
	require.Zero(t, held)
}

// An event is evidence about the pod, whatever a list has put in doubt.
func TestAnEventSettlesWhatAListHasPutInDoubt(t *testing.T) {
	s := newStore()
	s.replace(stands("a:1 b:1 c:1"), false)
	_, held := s.replace(stands("c:1"), false)
	require.Equal(t, 2, held)
	c, known := s.put("a", nil)
	require.True(t, known)
	require.Equal(t, Change{Alters: true, Withdrawn: claims("a:1")}, c)
	c, known = s.put("b", stands("b:1")["b"])
	require.True(t, known)
	require.Equal(t, Change{}, c, "it was wanted all the time")
	_, held = s.replace(stands("b:1 c:1"), false)
	require.Zero(t, held)
	_, known = s.put("stranger", nil)
	require.False(t, known)
}

// discovery.md, section 8, row 10: a role that changes is no other claim, and yet another set of workers
func TestARoleThatChangesAlters(t *testing.T) {
	s := newStore()
	s.replace(stands("a:1"), false)
	decode := stands("a:1")["a"]
	decode.wanted[0].Spec.WorkerType = workers.Decode
	c, _ := s.put("a", decode)
	require.Equal(t, Change{Alters: true}, c)
}

// discovery.md, section 21
func TestD50APodIsKeptInLittleMemory(t *testing.T) {
	const pods = 5000
	f := &follower{settings: new(regular()), store: newStore(), watcher: &watched{}, log: newLog().logger()}
	f.store.replace(map[string]*kept{}, false)
	managed := `{"f:metadata":"` + strings.Repeat("x", 20_000) + `"}`
	before := heap()
	for i := range pods {
		text, err := json.Marshal(readyPod(fmt.Sprintf("pod-%d", i), fmt.Sprintf("10.0.%d.%d", i/250, i%250), func(p *corev1.Pod) {
			p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(managed)}}
		}))
		require.NoError(t, err)
		var p corev1.Pod
		require.NoError(t, json.Unmarshal(text, &p))
		f.put(&p, f.kept(podOf(&p)))
	}
	each := (heap() - before) / pods
	t.Logf("%d bytes a pod", each)
	require.Less(t, each, int64(3000))
	wanted, _ := f.store.wanted()
	require.Len(t, wanted, pods)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
