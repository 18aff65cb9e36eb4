"""Constants of functions in single precision, the same for every executor that computes them itself.

The polynomials were fitted for this file: least squares, weights raised where the relative error was largest.
"""

LOG2_E = 1.4426950408889634
LOG2_E_REST = 1.9259629911e-8
"""What single precision leaves of log2(e)."""

TANH_P = (1.1428419358073391e-05, 0.0029510233441767076, 0.12925662526818482, 0.9999998543150839)
TANH_Q = (2.459209658834548e-07, 0.00023866911104682725, 0.02381555226453449, 0.4625887810509796, 1.0)
"""tanh(x) = x P(x^2) / Q(x^2) for |x| <= 8, highest power first; relative error 1.5e-7."""
