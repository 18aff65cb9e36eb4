"""Constants of functions in single precision, the same for every executor that computes them itself.

The polynomials were fitted for this file: least squares, weights raised where the relative error was largest.
"""

LOG2_E = 1.4426950408889634
LOG2_E_REST = 1.9259629911e-8
"""What single precision leaves of log2(e)."""

TANH_P = (1.1428419358073391e-05, 0.0029510233441767076, 0.12925662526818482, 0.9999998543150839)
TANH_Q = (2.459209658834548e-07, 0.00023866911104682725, 0.02381555226453449, 0.4625887810509796, 1.0)
"""tanh(x) = x P(x^2) / Q(x^2) for |x| <= 8, highest power first; relative error 1.5e-7."""

LN2_HIGH, LN2_LOW = 0.693359375, -0.00021219444005469057
"""log(2), of which the first has so few bits that multiples of it by exponents are exact."""

LOG_P = (0.08700365409050824, -0.14267484994412516, 0.14914789007740858, -0.16577585098881933,
         0.19963062039928084, -0.25001337038118276, 0.3333391077553911)  # fmt: skip
"""log(1 + f) = f - f^2 / 2 + f^3 P(f) from root(1/2) to root(2), highest power first; relative error 4e-8."""
ROOT_HALF_BITS = 0x3F3504F3
"""The bits of root(1/2)."""
LEAST_NORMAL, NORMALISE, NORMALISED = 2.0**-126, 2.0**23, 23.0
"""What is smaller is multiplied by 2^23 before its exponent is looked at."""

LOG1P_P = (0.005232627620196606, -0.029504977277182737, 0.07822553671088163, -0.13663211694251434,
           0.1910599141897507, -0.2484297854919253, 0.33319096401056497, -0.49999493126683,
           0.9999999698806292)  # fmt: skip
"""log(1 + e) = e P(e) from 0 to 1, highest power first; relative error 4e-8."""

NORMAL_SLOPE = 0.35
NORMAL_P = (-0.02915836959598637, 0.14403328100362262, -0.2558438756279892, 0.15932522282460151,
            -0.02321610992152503, 0.10555406098682342, 0.11982090376220937, 0.13986356655662827,
            0.13962130403232093)  # fmt: skip
"""The normal distribution up to -t is y P(y) exp(-t^2 / 2) with y = 1 / (1 + 0.35 t), for 0 <= t < 14.5;
highest power first; relative error 4e-8."""
