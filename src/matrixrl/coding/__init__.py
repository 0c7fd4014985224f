"""Numbers of the elements of finite spaces: a number, an array, a tuple or a dictionary becomes one whole number.

An element with several parts is a number with one digit for each part, in mixed radix. The first part is the most
significant digit, as in NumPy's order of array entries.
"""

from matrixrl.coding.base import Codec
from matrixrl.coding.box import BoxCodec
from matrixrl.coding.combined import DictCodec, TupleCodec
from matrixrl.coding.reading import codec_from
from matrixrl.coding.whole import ArrayCodec, DiscreteCodec

__all__ = ["ArrayCodec", "BoxCodec", "Codec", "DictCodec", "DiscreteCodec", "TupleCodec", "codec_from"]
