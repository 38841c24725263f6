//go:build linux

package compose_test

import (
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const release = "9.8.7"

// buildArguments are those of a release.
var buildArguments = []string{
	"TARGETOS=" + runtime.GOOS, "TARGETARCH=" + runtime.GOARCH,
	"VERSION=" + release, "COMMIT=0123abcd", "BUILD_TIME=2026-01-02T03:04:05Z",
}

// image is the folder that a container of a stage has as its root.
type image struct {
	stage
	root string
}

// buildImages follows the Dockerfile: in a copy of the context its RUN lines are run, and its COPY lines copy.
func buildImages(t *testing.T) map[string]image {
	t.Helper()
	if os.Getenv("SMG_TEST_IMAGE") == "" {
		t.Skip("left out: what the Dockerfile builds, which compiles everything once more without cgo. Set SMG_TEST_IMAGE=1 to do it")
	}
	stages, _ := dockerfile(t)
	source := buildContext(t)
	images := map[string]image{}
	for _, name := range []string{"build", "mockengine", "smg"} {
		img := image{stages[name], t.TempDir()}
		workdir := "/"
		for _, i := range img.instructions {
			switch i.name {
			case "WORKDIR":
				workdir = i.rest
				require.NoError(t, os.MkdirAll(filepath.Join(img.root, workdir), 0o755))
			case "COPY":
				from := source
				if other := i.flag("from"); other != "" {
					from = images[other].root
				}
				img.copy(t, from, workdir, strings.Fields(i.rest))
			case "RUN":
				img.run(t, workdir, i.rest)
			}
		}
		images[name] = img
	}
	return images
}

// copy is COPY: the last word is the destination.
func (img image) copy(t *testing.T, from, workdir string, words []string) {
	t.Helper()
	to := words[len(words)-1]
	folder := strings.HasSuffix(to, "/") || to == "."
	if !filepath.IsAbs(to) {
		to = filepath.Join(workdir, to)
	}
	for _, name := range words[:len(words)-1] {
		source, target := filepath.Join(from, name), filepath.Join(img.root, to)
		info, err := os.Stat(source)
		if os.IsNotExist(err) && name == certificates {
			source = hostCertificates(t) // of the image that the stage begins with: there is none here
			info, err = os.Stat(source)
		}
		require.NoError(t, err)
		if info.IsDir() {
			copyTree(t, source, target)
			continue
		}
		if folder {
			target = filepath.Join(target, filepath.Base(name))
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(target), 0o755))
		require.NoError(t, copyFile(source, target))
	}
}

const certificates = "/etc/ssl/certs/ca-certificates.crt"

// hostCertificates are those of this machine, or an empty file.
func hostCertificates(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(certificates); err == nil {
		return certificates
	}
	empty := filepath.Join(t.TempDir(), "none")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	return empty
}

// copyTree copies what is in a folder into another, which may have files already.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		}
		return copyFile(path, filepath.Join(to, name))
	}))
}

// run is RUN, with the toolchain and the caches of this machine. The one absolute path that our lines write to is moved.
func (img image) run(t *testing.T, workdir, line string) {
	t.Helper()
	line = strings.ReplaceAll(line, " /out/ ", " "+img.root+"/out/ ")
	cmd := exec.Command("sh", "-ec", line)
	cmd.Dir = filepath.Join(img.root, workdir)
	cmd.Env = append(os.Environ(), buildArguments...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", line, out)
}

// command is a process of a container: its root is the image's, its user the image's.
func (img image) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("left out: to start a program in a root of its own takes the rights of root")
	}
	user, group, _ := strings.Cut(img.only(t, "USER"), ":")
	uid, err := strconv.ParseUint(user, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(group, 10, 32)
	require.NoError(t, err)
	words := append(img.entrypoint(t), args...)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: img.root, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return cmd
}

// The Dockerfile, followed without a daemon.
func TestImages(t *testing.T) {
	images := buildImages(t)
	t.Run("hold one program, static, and the certificates", func(t *testing.T) {
		require.ElementsMatch(t, []string{"/smg", certificates}, filesIn(t, images["smg"].root))
		require.ElementsMatch(t, []string{"/mockengine"}, filesIn(t, images["mockengine"].root))
		for _, name := range []string{"smg", "mockengine"} {
			requireStatic(t, filepath.Join(images[name].root, name))
		}
	})
	t.Run("know their version", func(t *testing.T) {
		out, err := images["smg"].command(t, "version").CombinedOutput()
		require.NoError(t, err, string(out))
		require.Equal(t, "smg "+release+"\n", string(out))
		out, err = images["smg"].command(t, "--version-verbose").CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "build time: 2026-01-02T03:04:05Z\n")
		require.Contains(t, string(out), "commit: 0123abcd ")
	})
	t.Run("serve from an empty root as nobody in particular, flags following the entry point", func(t *testing.T) {
		engine := startEngine(t, images["mockengine"].command(t, "--model=demo"))
		port, metrics := freePort(t), freePort(t)
		start(t, images["smg"].command(t, "--host=127.0.0.1", "--port", strconv.Itoa(port), "--prometheus-host=127.0.0.1",
			"--prometheus-port", strconv.Itoa(metrics), "--worker-startup-check-interval=1", "--shutdown-grace-period-secs=0", "--worker-urls", engine))
		requireServes(t, port, metrics, "9.8.7", "0123abcd")
	})
}

func filesIn(t *testing.T, root string) (files []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, strings.TrimPrefix(path, root))
		}
		return err
	}))
	return files
}

// requireStatic demands a program that asks for no loader and no library.
func requireStatic(t *testing.T, path string) {
	t.Helper()
	f, err := elf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	for _, segment := range f.Progs {
		require.NotEqual(t, elf.PT_INTERP, segment.Type, path)
		require.NotEqual(t, elf.PT_DYNAMIC, segment.Type, path)
	}
	require.Nil(t, f.Section(".debug_info"), "%s carries what a debugger reads", path)
}
