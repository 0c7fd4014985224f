"""Files that nobody saved: damage, edits with and without a new digest, and zip files that lie about themselves."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import warnings
import zipfile

import numpy as np

from matrixrl.archive import _DIGITS, _MARK

HEADER = "header.npy"
HOSTILE_VALUES = [
    *(None, True, False, 0, -1, 1, 2, 7, 10**3, 10**8, 10**9, 2**31, 2**63, 2**64, -(2**63), 10**18, 10**30),
    *(
        0.5,
        -0.5,
        1e-300,
        1e300,
        1e12,
        "",
        "x",
        "os:system",
        "tuned",
        "\x00",
        "é" * 50,
        "one-hot",
        "table",
        "sparse",
    ),
    *("own", "finite", "continuous", "matrixrl.algorithms.baselines.psrl:PSRL", [], [0], [0, 1], [1, 0], [0, 10**9]),
    *([None, None], {}, {"a": 1}, [[[[]]]]),
]
HOSTILE_TYPES = ["<f4", "<f8", "<i8", "<i4", "|u1", "|b1", "<u8", ">f8", "<c16", "<f2", "<U3", "<M8[s]", "|V8"]


def npy(array):
    """Return the bytes of an npy file; objects are pickled."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def array_of(data):
    return np.load(io.BytesIO(data))


def members_of(data):
    """Return the members of an archive as (name, bytes)."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [(info.filename, archive.read(info)) for info in archive.infolist()]


def archive_of(members, compression=zipfile.ZIP_STORED):
    """Return an archive with members, given as (name, bytes), and the digest that belongs to them."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", compression) as archive:
        warnings.simplefilter("ignore")  # of names that are repeated
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, compression)
        archive.comment = _MARK + bytes(_DIGITS)
    return resealed(buffer.getvalue())


def resealed(data):
    """Return the bytes of a zip file with the digest that an attacker computes."""
    return data[:-_DIGITS] + hashlib.sha256(data[:-_DIGITS]).hexdigest().encode()


def header_of(data):
    return json.loads(array_of(dict(members_of(data))[HEADER]).tobytes())


def header_member(header):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return npy(np.frombuffer(text, dtype=np.uint8))


def changed(data, change):
    """Return an archive with some members changed, {name: bytes or None}, and a new digest."""
    kept = [(name, change.get(name, old)) for name, old in members_of(data)]
    names = {name for name, _ in kept}
    kept += [(name, new) for name, new in change.items() if name not in names]
    return archive_of([(name, new) for name, new in kept if new is not None])


def with_header(data, **changes):
    """Return an archive with entries of its header changed; `...` removes one."""
    header = {**header_of(data), **changes}
    return changed(data, {HEADER: header_member({k: v for k, v in header.items() if v is not ...})})


def raw_npy(text, body=b""):
    """Return an npy file with any text as its header."""
    line = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line.encode() + body


# Damage, of which the digest must tell


def flipped(data, rng, _):
    out = bytearray(data)
    out[rng.integers(len(out))] ^= int(rng.integers(1, 256))
    return bytes(out)


def truncated(data, rng, _):
    return data[: int(rng.integers(len(data)))]


def extended(data, rng, _):
    extra = rng.bytes(int(rng.integers(1, 60)))
    return data + extra if rng.random() < 0.5 else extra + data


def overwritten(data, rng, _):
    at, size = int(rng.integers(len(data))), int(rng.integers(1, 400))
    return data[:at] + (bytes(size) if rng.random() < 0.5 else rng.bytes(size)) + data[at + size :]


def spliced(data, rng, other):
    at = int(rng.integers(min(len(data), len(other))))
    return data[:at] + other[at:]


def stale_edit(data, rng, other):
    """An edit of a member with the digest of the file before."""
    edit = (edited_header, edited_array, swapped_member)[int(rng.integers(3))]
    out = edit(data, rng, other)
    return out[:-_DIGITS] + data[-_DIGITS:]


# Edits with a new digest


def _paths(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _paths(item, (*path, key))


def edited_header(data, rng, _):
    header = header_of(data)
    paths = [path for path in _paths(header) if path]
    path = paths[int(rng.integers(len(paths)))]
    place = header
    for key in path[:-1]:
        place = place[key]
    choice = rng.random()
    if choice < 0.1:
        del place[path[-1]]
    elif choice < 0.15 and isinstance(place, dict):
        place["odd"] = place[path[-1]]
    elif choice < 0.3 and isinstance(place[path[-1]], (int, float)) and not isinstance(place[path[-1]], bool):
        place[path[-1]] = place[path[-1]] * 2 + 1
    else:
        place[path[-1]] = HOSTILE_VALUES[int(rng.integers(len(HOSTILE_VALUES)))]
    return changed(data, {HEADER: header_member(header)})


def broken_json(data, rng, _):
    text = array_of(dict(members_of(data))[HEADER]).tobytes()
    at = int(rng.integers(len(text)))
    forms = [
        text[:at],
        text[:at] + rng.bytes(3) + text[at:],
        b"[" * 100_000,
        b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
        text.replace(b"null", b"NaN", 1),
        text.replace(b"0", b"1" * 5000, 1),
        text.replace(b"1", b"1e999", 1),
        text[:-1] + b', "version": 4}',
        b"",
        b"null",
        b"\xff\xfe" + text,
    ]
    return changed(data, {HEADER: header_member(forms[int(rng.integers(len(forms)))])})


def _some_array(data, rng):
    members = [(name, old) for name, old in members_of(data) if name != HEADER]
    name, old = members[int(rng.integers(len(members)))]
    return name, array_of(old)


def edited_array(data, rng, _):
    """Other numbers of the same shape and type."""
    name, array = _some_array(data, rng)
    new, flat = array.copy(), array.size
    if not flat:
        return changed(data, {name: npy(np.zeros((1, *array.shape[1:]), dtype=array.dtype))})
    place = new.reshape(-1)
    i, form = int(rng.integers(flat)), int(rng.integers(9))
    if array.dtype.kind == "f":
        values = [np.nan, np.inf, -np.inf, -1.0, 1e308, 1e12, 0.5, -0.0, 1e-300]
        if form < 5:
            place[i] = values[int(rng.integers(len(values)))]
        elif form == 5:
            new[...] = values[int(rng.integers(len(values)))]
        elif form == 6:
            place[:] = rng.standard_normal(flat)
        elif form == 7:
            place[:] = rng.permutation(place)
        else:
            new *= rng.choice([-1.0, 0.0, 2.0, 0.5, 1e6])
    elif array.dtype.kind == "b":
        place[i] = not place[i]
    else:
        info = np.iinfo(array.dtype)
        values = [0, 1, info.max, info.min, int(place[i]) // 2, min(int(place[i]) + 1, info.max)]
        new[...] = np.array(values[form], dtype=array.dtype) if form < 2 else new
        place[i] = np.array(values[int(rng.integers(len(values)))], dtype=array.dtype)
    return changed(data, {name: npy(new)})


def reshaped_array(data, rng, _):
    name, array = _some_array(data, rng)
    forms = [
        array[None],
        array.reshape(-1),
        array.T if array.ndim > 1 else array[:-1] if array.ndim else array[None],
        np.concatenate([array, array]) if array.ndim else np.stack([array, array]),
        np.zeros((0,), dtype=array.dtype),
        np.zeros((), dtype=array.dtype),
        np.zeros((0, 10**6), dtype=array.dtype),
        np.zeros((1, 400, 400), dtype=array.dtype),
        np.asfortranarray(np.ones((3, 4), dtype=array.dtype)),
    ]
    return changed(data, {name: npy(forms[int(rng.integers(len(forms)))])})


def retyped_array(data, rng, _):
    name, array = _some_array(data, rng)
    kind = HOSTILE_TYPES[int(rng.integers(len(HOSTILE_TYPES)))]
    if rng.random() < 0.1:
        return changed(data, {name: npy(np.array([{"a": 1}], dtype=object))})
    with np.errstate(all="ignore"):
        try:
            new = array.astype(kind)
        except (TypeError, ValueError):
            new = np.zeros(array.shape, dtype=kind)
    return changed(data, {name: npy(new)})


def lying_npy(data, rng, _):
    """An npy header that declares other sizes than there are bytes."""
    name, array = _some_array(data, rng)
    shapes = [
        *("(1000000000, 1000000)", "(-1,)", "(True,)", "((1,),)", "(1,) * 70", "(1, 'a')", "(9223372036854775807, 2)"),
        *("(0, 1000000000000)", "(4294967296, 4294967296)", "()", "(1e9,)", "(" * 60, "(10**9,)", f"({(1,) * 11})"),
        f"({array.size + 1},)",
    ]
    shape = shapes[int(rng.integers(len(shapes)))]
    descr = rng.choice(["<f8", "|O", "<i8", "|S10000000", "|V1000000000", "<f16", "nonsense", ">i4"])
    text = f"{{'descr': '{descr}', 'fortran_order': {rng.choice(['False', 'True', '7'])}, 'shape': {shape}, }}"
    body = array.tobytes() if rng.random() < 0.5 else b""
    raw = raw_npy(text, body)
    if rng.random() < 0.2:
        raw = b"\x93NUMPY\x02\x00" + (2**32 - 1).to_bytes(4, "little") + raw[10:]
    return changed(data, {name: raw})


def edited_members(data, rng, other):
    """Members that are missing, repeated, renamed or unknown."""
    members = members_of(data)
    i = int(rng.integers(len(members)))
    name, old = members[i]
    form = int(rng.integers(7))
    if form == 0:
        del members[i]
    elif form == 1:
        members.append((name, members_of(other)[0][1]))
    elif form == 2:
        members[i] = (
            rng.choice(["../up.npy", "/abs.npy", "odd", "é.npy", "a\x00b.npy", "header.npy", ".npy", "x" * 60_000]),
            old,
        )
    elif form == 3:
        members.append(
            (rng.choice(["extra.npy", "learned_extra.npy", "plan_7_policy.npy", "episode_9_rewards.npy"]), old)
        )
    elif form == 4:
        members = [members[int(k)] for k in rng.permutation(len(members))]
    elif form == 5:
        members[i] = (name, rng.bytes(len(old)))
    else:
        members[i] = (name, old[: int(rng.integers(len(old)))])
    return archive_of(members)


def swapped_member(data, rng, other):
    """A member of another file, under its own name or another."""
    theirs = [(name, new) for name, new in members_of(other) if name != HEADER]
    name, new = theirs[int(rng.integers(len(theirs)))]
    mine = [n for n, _ in members_of(data) if n != HEADER]
    return changed(data, {name if name in mine and rng.random() < 0.7 else mine[int(rng.integers(len(mine)))]: new})


def several_edits(data, rng, other):
    for _ in range(int(rng.integers(2, 5))):
        edit = RESEALED[int(rng.integers(5))]
        try:
            data = edit(data, rng, other)
        except (ValueError, TypeError, LookupError):  # an edit of what an edit left may be impossible
            break
    return data


# Zip files that lie

_ENTRY, _END = struct.Struct("<4s6H3L5H2L"), struct.Struct("<4s4H2LH")


def _directory(data):
    """Return where the directory begins, and the positions of its entries."""
    end = data.rindex(b"PK\x05\x06")
    at = start = _END.unpack_from(data, end)[6]
    places = []
    while at < end and data[at : at + 4] == b"PK\x01\x02":
        places.append(at)
        fields = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size + fields[10] + fields[11] + fields[12]
    return start, places, end


def edited_directory(data, rng, _):
    """One number of the directory, of a local header or of the last record, changed."""
    out = bytearray(data)
    start, places, end = _directory(data)
    at = places[int(rng.integers(len(places)))]
    local = _ENTRY.unpack_from(data, at)[16]
    spots = [(at, 46), (local, 30), (end, 22)]
    base, size = spots[int(rng.integers(3))]
    width = int(rng.choice([2, 4]))
    value = int(rng.choice([0, 1, 8, 0xFFFF, 0x7FFF, 3, len(data)]))
    if width == 4:
        value = int(rng.choice([0, 1, 0xFFFFFFFF, 0x7FFFFFFF, len(data), start, 10**9]))
    place = base + 4 + int(rng.integers((size - 4 - width) // 2 + 1)) * 2
    out[place : place + width] = (value & ((1 << (8 * width)) - 1)).to_bytes(width, "little")
    return resealed(bytes(out))


def overlapping_members(data, rng, _):
    """A directory in which many entries point at the same bytes."""
    start, places, end = _directory(data)
    entries = [data[a:b] for a, b in zip(places, [*places[1:], end], strict=True)]
    copies = []
    chosen = entries[int(rng.integers(len(entries)))]
    for k in range(int(rng.choice([1, 20, 400]))):
        fields = list(_ENTRY.unpack_from(chosen, 0))
        name = f"extra_{k}.npy".encode() if rng.random() < 0.5 else chosen[_ENTRY.size : _ENTRY.size + fields[10]]
        fields[10] = len(name)
        copies.append(_ENTRY.pack(*fields) + name + chosen[_ENTRY.size + _ENTRY.unpack_from(chosen, 0)[10] :])
    directory = b"".join(entries + copies)
    last = list(_END.unpack_from(data, end))
    last[3] = last[4] = len(entries) + len(copies)
    last[5] = len(directory)
    return resealed(data[:start] + directory + _END.pack(*last) + data[end + _END.size :])


def zip64_records(data, rng, _):
    """Records of large zip files that say something else than the last record."""
    start, places, end = _directory(data)
    count, size = len(places), end - start
    numbers = [count, count, size, start]
    numbers[int(rng.integers(4))] = int(rng.choice([0, 2**32, 2**63, size - 1, 10**6]))
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, *numbers)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1)
    last = list(_END.unpack_from(data, end))
    if rng.random() < 0.5:
        last[3] = last[4] = 0xFFFF
        last[5] = last[6] = 0xFFFFFFFF
    return resealed(data[:end] + record + locator + _END.pack(*last) + data[end + _END.size :])


def compressed(data, rng, _):
    """Members that are compressed; some of them unpack to a thousand times their size."""
    members = members_of(data)
    if rng.random() < 0.5:
        i = int(rng.integers(1, len(members)))
        members[i] = (members[i][0], npy(np.zeros(10**5)))
    return archive_of(members, int(rng.choice([zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])))


# Small files that ask for a lot of memory


def many_overlaps(data, rng, _):
    """One member of four megabytes, and hundreds of entries of the directory that point at it."""
    data = archive_of([*members_of(data), ("extra.npy", npy(np.zeros(1 << 19)))])
    start, places, end = _directory(data)
    fields, copies = list(_ENTRY.unpack_from(data, places[-1])), []
    for k in range(1000):
        name = f"extra_{k}.npy".encode()
        fields[10] = len(name)
        copies.append(_ENTRY.pack(*fields) + name)
    last = list(_END.unpack_from(data, end))
    last[3] = last[4] = len(places) + len(copies)
    last[5] = end - start + sum(len(copy) for copy in copies)
    return resealed(data[:end] + b"".join(copies) + _END.pack(*last) + data[end + _END.size :])


def endless_directory(data, rng, _):
    """A directory of as many entries as fit into a few megabytes."""
    start, places, end = _directory(data)
    entry = data[places[0] : places[0] + _ENTRY.size] + b"a"
    fields = list(_ENTRY.unpack_from(entry, 0))
    fields[10] = 1
    entries = (_ENTRY.pack(*fields) + b"a") * int(rng.choice([10**5, 3 * 10**5]))
    last = list(_END.unpack_from(data, end))
    last[5] = end - start + len(entries)
    if rng.random() < 0.5:
        entries = (_ENTRY.pack(*fields) + b"a") * 10_000
        last[3] = last[4] = len(places) + 10_000
        last[5] = end - start + len(entries)
    return resealed(data[:end] + entries + _END.pack(*last) + data[end + _END.size :])


def large_numbers(data, rng, _):
    """Every whole number of the settings made large."""
    header, large = header_of(data), int(rng.choice([10**6, 10**8, 10**9]))
    settings = header.get("settings", {})
    names = [name for name, v in settings.items() if type(v) is int] + ["columns", "budget", "anchors", "n_episodes"]
    for name in names:
        if name in settings and (rng.random() < 0.6 or type(settings[name]) is int):
            settings[name] = large
    return changed(data, {HEADER: header_member(header)})


def large_problem(data, rng, _):
    """A long horizon or many states, with a fingerprint to match and nothing else."""
    from matrixrl.problems import Task, fingerprint
    from matrixrl.spaces import DiscreteCodec

    header, members = header_of(data), dict(members_of(data))
    problem = header.get("problem", {})
    if problem.get("kind") != "finite":
        return large_numbers(data, rng, _)
    reward, start = (array_of(members[f"problem_{name}.npy"]) for name in ("reward", "start"))
    change = {}
    if rng.random() < 0.5:
        problem["horizon"] = int(rng.choice([10**6, 10**7, 10**8]))
    else:
        count = int(rng.choice([3000, 30_000, 200_000]))
        reward = np.zeros((count, reward.shape[1]))
        start = np.full(count, 1.0 / count)
        problem["states"], problem["phi"], problem["psi"] = DiscreteCodec(count).description(), "one-hot", "one-hot"
        change = {"problem_reward.npy": npy(reward), "problem_start.npy": npy(start)}
        for name in ("phi", "psi", "points", "phi_probe", "psi_probe"):
            change[f"problem_{name}.npy"] = None
    span = tuple(problem["reward_range"])
    try:
        task = Task(reward, problem["horizon"], reward_range=span, start=start, end_state=problem["end_state"])
    except ValueError:
        return large_numbers(data, rng, _)
    problem["fingerprint"] = fingerprint(task)
    return changed(data, {**change, HEADER: header_member(header)})


def wide_features(data, rng, _):
    """Features of a few states with thousands of columns."""
    header, members = header_of(data), dict(members_of(data))
    problem = header.get("problem", {})
    if problem.get("kind") != "finite":
        return large_numbers(data, rng, _)
    n_states, n_actions = array_of(members["problem_reward.npy"]).shape
    wide, change = int(rng.choice([2000, 5000, 20_000])), {HEADER: None}
    problem["psi_pinv"] = True
    if rng.random() < 0.6:
        problem["psi"] = "table"
        change["problem_psi.npy"] = npy(rng.random((n_states, wide)))
    else:
        problem["phi"] = "table"
        change["problem_phi.npy"] = npy(rng.random((n_states, n_actions, wide)))
    return changed(data, {**change, HEADER: header_member(header)})


DAMAGE = [flipped, truncated, extended, overwritten, spliced, stale_edit]
RESEALED = [
    edited_header,
    edited_array,
    reshaped_array,
    retyped_array,
    swapped_member,
    edited_members,
    broken_json,
    lying_npy,
]
LYING_DIRECTORIES = [edited_directory, overlapping_members, zip64_records]
BOMBS = [many_overlaps, endless_directory, large_numbers, large_problem, wide_features]
KINDS = {make.__name__: make for make in (*DAMAGE, *RESEALED, several_edits, *LYING_DIRECTORIES, compressed, *BOMBS)}
