"""The slow function. Replace it by yours; keep the name `work`, or change it in score.py."""

MIN_LENGTH = 3  # knob: off
CHUNK = 200  # knob: 50..20000 log


def work(task):
    """The ten most frequent words of a text, most frequent first, then by alphabet."""
    counts = []
    words = task.split()
    for start in range(0, len(words), CHUNK):
        part = {}
        for word in words[start : start + CHUNK]:
            if len(word) >= MIN_LENGTH:
                part[word] = part.get(word, 0) + 1
        for word in sorted(part):
            for entry in counts:
                if entry[0] == word:
                    entry[1] += part[word]
                    break
            else:
                counts.append([word, part[word]])
    counts.sort(key=lambda entry: (-entry[1], entry[0]))
    return [word for word, _ in counts[:10]]
