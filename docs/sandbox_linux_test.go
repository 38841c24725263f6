package docs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"
)

const (
	sandboxVariable = "SMG_WALK_SANDBOX" // set in the process that runs in the sandbox
	noSandbox       = 97                 // its exit code if it cannot furnish its sandbox
)

// sandboxed runs this test binary again in namespaces of its own: a network with nothing on its ports, mounts, so that the copy of
// the checkout can lie where the checkout is and the build cache fits, and processes, so that none is left when it ends. ran is false
// where the system allows none of that; the walk then happens in the open.
func sandboxed() (code int, ran bool) {
	if os.Getenv(sandboxVariable) != "" {
		if err := furnish(); err != nil {
			os.Exit(noSandbox)
		}
		return 0, false
	}
	runtime.LockOSThread() // Pdeathsig is sent when the thread that started the process ends
	defer runtime.UnlockOSThread()
	const own = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID
	for _, flags := range []uintptr{own, own | syscall.CLONE_NEWUSER} {
		code, err := again(flags)
		if err == nil && code != noSandbox {
			return code, true
		}
	}
	return 0, false
}

func again(flags uintptr) (code int, err error) {
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), sandboxVariable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	if flags&syscall.CLONE_NEWUSER != 0 {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil // -1 is a signal
	}
	return 0, err
}

// furnish keeps mounts to the sandbox and brings its loopback interface up.
func furnish() error {
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts: %w", err)
	}
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Close(socket) }()
	request := struct {
		name  [16]byte
		flags uint16
		_     [22]byte
	}{name: [16]byte{'l', 'o'}, flags: syscall.IFF_UP}
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(socket), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return fmt.Errorf("loopback: %w", errno)
	}
	return nil
}

// cover puts a folder in another's place, for this process and those that it starts; covered is false outside the sandbox.
func cover(place, with string) (covered bool, err error) {
	if os.Getenv(sandboxVariable) == "" {
		return false, nil
	}
	return true, syscall.Mount(with, place, "", syscall.MS_BIND, "")
}
