"""Finite spaces: states and actions as users and environments have them, and their numbers 0, 1, ….

`codec_of` reads a Gymnasium space, `read_space` names, and `codec_from` what a file says.
"""

from matrixrl.spaces.codecs import LARGEST_SPACE, ArrayCodec, BoxCodec, Codec, DiscreteCodec, TupleCodec
from matrixrl.spaces.gym_spaces import BOUNDS, codec_from, codec_of, control_codec, space_remedy
from matrixrl.spaces.names import NamesCodec, PartsCodec, cell_text, name_text, read_space

__all__ = [
    "BOUNDS",
    "LARGEST_SPACE",
    "ArrayCodec",
    "BoxCodec",
    "Codec",
    "DiscreteCodec",
    "NamesCodec",
    "PartsCodec",
    "TupleCodec",
    "cell_text",
    "codec_from",
    "codec_of",
    "control_codec",
    "name_text",
    "read_space",
    "space_remedy",
]
