"""Constants of functions in single precision, the same for every executor that computes them itself.

The polynomials were fitted for this file: least squares, weights raised where the relative error was largest.
"""

LOG2_E = 1.4426950408889634
# What single precision leaves of log2(e).
LOG2_E_REST = 1.9259629911e-8

TANH_P = (1.1428419358073391e-05, 0.0029510233441767076, 0.12925662526818482, 0.9999998543150839)
# tanh(x) = x P(x^2) / Q(x^2) for |x| <= 8, highest power first; relative error 1.5e-7.
TANH_Q = (2.459209658834548e-07, 0.00023866911104682725, 0.02381555226453449, 0.4625887810509796, 1.0)

LN2 = 0.6931471805599453
# log(1 + f) = f - f^2 / 2 + f^3 P(f) from root(1/2) to root(2), highest power first; relative error 3e-7.
LOG_P = (-0.10191653456733028, 0.16024366671740709, -0.17137141788533744, 0.19924505219031768,
         -0.24983266271321772, 0.3333424568331662)  # fmt: skip
# The bits of root(1/2).
ROOT_HALF_BITS = 0x3F3504F3
# What is smaller is multiplied by 2^23 before its exponent is looked at.
LEAST_NORMAL, NORMALISE, NORMALISED = 2.0**-126, 2.0**23, 23.0

NORMAL_SLOPE, NORMAL_END = 0.305, 14.5
# The normal distribution up to -t is y P(y) exp(-t^2 / 2) with y = 1 / (1 + 0.305 t), for 0 <= t <= 14.5;
# highest power first; relative error 1e-7, with log2(e) in single precision.
NORMAL_P = (0.03672580046635445, -0.1531136871744159, 0.18596605425388282, -0.03824800197187408,
            0.12119695252094533, 0.10335300829007682, 0.12248165431079597, 0.12163826646760886)  # fmt: skip

# log(1 + e) = e P(e) from 0 to 1, highest power first; relative error 2e-7.
LOG1P_P = (-0.008539102137337044, 0.044089267493353915, -0.10768122577741406, 0.1774520943399737,
           -0.24495452228145576, 0.33275478177808654, -0.49997405320240434, 0.999999805671368)  # fmt: skip
