"""Kafka's own partitioner: the same key goes to the same partition from every client, in every language."""

_SEED = 0x9747B28C
_M = 0x5BD1E995
_WORD = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit MurmurHash2 of ``data`` with Kafka's seed, as an unsigned number."""
    length = len(data)
    h = (_SEED ^ length) & _WORD
    for start in range(0, length - length % 4, 4):
        k = (int.from_bytes(data[start : start + 4], "little") * _M) & _WORD
        k = ((k ^ (k >> 24)) * _M) & _WORD
        h = ((h * _M) & _WORD) ^ k
    if tail := data[length - length % 4 :]:
        h = ((h ^ int.from_bytes(tail, "little")) * _M) & _WORD
    h = ((h ^ (h >> 13)) * _M) & _WORD
    return h ^ (h >> 15)


def partition_of(key: bytes, partitions: int) -> int:
    """The partition, of so many, that Kafka's default partitioner gives to ``key``."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
