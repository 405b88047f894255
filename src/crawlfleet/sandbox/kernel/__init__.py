"""Calls of the Linux kernel: control groups, Landlock, seccomp."""
