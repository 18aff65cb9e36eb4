"""The executor `cuda` on a GPU: checked, timed, and beside what others published."""
