"""Short names for array types."""

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
I8 = NDArray[np.int8]
Bools = NDArray[np.bool_]
