"""What kills and full disks leave behind; `python -m tests.faults --help` has the long runs."""
