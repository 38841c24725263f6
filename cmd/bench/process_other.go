//go:build !linux

package main

import (
	"os"
	"os/exec"
)

// Without process groups the children of a peer are left to end with it.

func tie(*exec.Cmd) {}

func terminate(cmd *exec.Cmd) { _ = cmd.Process.Signal(os.Interrupt) }

func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
