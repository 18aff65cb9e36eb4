"""What the other commands say: comparisons, explanations, calibration, layouts."""
