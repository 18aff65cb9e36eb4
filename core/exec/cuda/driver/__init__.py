"""NVIDIA's driver and compiler: devices, memory, machine code, launches."""
