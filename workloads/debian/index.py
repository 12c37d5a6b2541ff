"""Builds an inverted index of a text and answers ranked queries from it.

    python3 index.py TEXT DOCUMENTS QUERIES

Each of the text's first DOCUMENTS paragraphs is a document. A query is a few words of one of them;
it is answered by the documents with the largest sum of term frequency over document frequency, in
whole numbers. Prints how often the paragraph that a query came from was found first, and a digest
of all answers. Dictionaries are ordered by insertion, so hash randomisation changes nothing.
"""

import sys


def tokens(line):
    """A line's words in lower case, without punctuation."""
    return [word.strip(".,?!").lower() for word in line.split()]


def build(path, count):
    """Postings per word: the documents that have it, and at which positions."""
    index = {}
    documents = []
    # pathlib would take longer to load than a small text takes to index.
    with open(path, encoding="ascii") as text:  # noqa: PTH123
        for number in range(count):
            words = tokens(text.readline())
            documents.append(words)
            for position, word in enumerate(words):
                postings = index.setdefault(word, {})
                postings.setdefault(number, []).append(position)
    return index, documents


def answer(index, documents, words, count=10):
    """The best documents for a query: by score, then by number."""
    scores = {}
    for word in words:
        postings = index.get(word, {})
        weight = 1_000_000 // (1 + len(postings))
        for number, positions in postings.items():
            scores[number] = scores.get(number, 0) + weight * len(positions)
    ranked = [(-score // len(documents[number]), number) for number, score in scores.items()]
    ranked.sort()
    return [number for _, number in ranked[:count]]


def main():
    """Builds, asks, prints."""
    path, count, queries = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    index, documents = build(path, count)
    state, first, digest = 12345, 0, 0
    for _ in range(queries):
        state = (state * 1103515245 + 12345) % 2**31
        number = state // 8 % len(documents)
        words = documents[number]
        start = state // 65536 % max(1, len(words) - 6)
        found = answer(index, documents, words[start : start + 6])
        first += found[0] == number
        for place in found:
            digest = (digest * 31 + place) % 1_000_003
    print(f"{len(documents)} documents, {len(index)} words, {queries} queries")
    print(f"{first} found first, digest {digest:06d}")


main()
