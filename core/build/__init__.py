"""Models as C libraries: a compiled pass, its kernels and weights in one shared object, without Python."""
