# SPDX-License-Identifier: Apache-2.0
"""Inputs of the benchmarks, generated from fixed seeds: the same bytes on every machine."""
import hashlib
import os
import subprocess

SEED = 20260101


class Random:
    """A tiny generator (xorshift) whose sequence no library version can change."""

    def __init__(self, seed):
        self.state = seed

    def next(self, below):
        s = self.state
        s ^= (s << 13) & 0xFFFFFFFFFFFFFFFF
        s ^= s >> 7
        s ^= (s << 17) & 0xFFFFFFFFFFFFFFFF
        self.state = s
        return s % below


WORDS = ("ledger stack frame symbol module page region heap block thread event record column index footer varint chunk "
         "table tree view snapshot summary report export import trace probe ring budget stamp order").split()


def words(rnd, count):
    return " ".join(WORDS[rnd.next(len(WORDS))] for _ in range(count))


def sqlite_script(path):
    with open(path, "w") as f:
        f.write("""PRAGMA journal_mode=OFF;
CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT, city TEXT, note TEXT);
CREATE TABLE sale(id INTEGER PRIMARY KEY, customer INTEGER, item TEXT, cents INTEGER, day INTEGER);
WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO customer SELECT i, printf('customer %06d', i * 7919 % 100003), printf('city %02d', i * 31 % 97),
 group_concat(printf('%x', i * 77773 % 65537)) FROM n GROUP BY i;
WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 120000)
INSERT INTO sale SELECT i, i * 7919 % 20000 + 1, printf('item %04d', i * 104729 % 997), i * 31337 % 10000, i * 613 % 365 FROM n;
CREATE INDEX sale_customer ON sale(customer, day);
CREATE INDEX sale_item ON sale(item, cents);
""")
        rnd = Random(SEED)
        for i in range(4000):  # many small statements: parsing and planning allocate
            first = rnd.next(19000)
            f.write(f"SELECT s.item, sum(s.cents) FROM sale s JOIN customer c ON c.id = s.customer WHERE c.id BETWEEN "
                    f"{first} AND {first + 5} AND s.day < {rnd.next(365)} GROUP BY s.item ORDER BY 2 LIMIT 3;\n")
        f.write("""SELECT city, count(*), sum(cents), group_concat(DISTINCT item) FROM customer JOIN sale ON customer = customer.id GROUP BY city ORDER BY 3;
SELECT item, sum(cents), rank() OVER (ORDER BY sum(cents) DESC) FROM sale GROUP BY item LIMIT 20;
UPDATE sale SET item = upper(item) || printf(' %d', cents) WHERE day % 3 = 0;
SELECT count(*), sum(length(item)) FROM sale;
""")


def gawk_program(path):
    with open(path, "w") as f:
        f.write(r'''BEGIN { srand(1) }
{ for (i = 1; i <= NF; i++) { count[$i]++; line[$i] = line[$i] ? substr(line[$i] "," NR, 1, 60) : NR }
  key = $1 "-" $2; split($0, part, " "); total[key] += length($0); text = gensub(/([a-z])e/, "\\1E", "g"); seen[substr(text, 1, 24)]++ }
END { n = asorti(count, sorted); for (i = 1; i <= n; i++) print sorted[i], count[sorted[i]], line[sorted[i]]
  m = 0; for (k in seen) m += seen[k]; print m, length(seen), length(total) }
''')


def text_lines(path, lines, per_line=12):
    rnd = Random(SEED + 1)
    with open(path, "w") as f:
        for i in range(lines):
            f.write(f"{words(rnd, per_line)} {rnd.next(100000)} {i % 1000}\n")


def perl_program(path):
    with open(path, "w") as f:
        f.write(r'''use strict; use warnings;
my (%index, %length, @kept);
while (my $line = <>) {
    chomp $line;
    my @w = split / /, $line;
    push @{$index{$w[0]}{$w[1]}}, { n => $., first => $w[2], tail => join('-', reverse @w[3 .. 7]) };
    $length{length $line}++;
    (my $t = $line) =~ s/(\w+)k(\w*)/<$1:$2>/g;
    push @kept, $t if $. % 7 == 0;
    shift @kept if @kept > 5000;
}
my $sum = 0;
for my $a (sort keys %index) { for my $b (sort keys %{$index{$a}}) { $sum += length $_->{tail} for @{$index{$a}{$b}} } }
print "$sum ", scalar(@kept), " ", join(',', map { "$_=$length{$_}" } sort { $a <=> $b } keys %length), "\n";
''')


def json_file(path, objects):
    rnd = Random(SEED + 2)
    with open(path, "w") as f:
        f.write("[\n")
        for i in range(objects):
            f.write(("," if i else "") + '{"id":%d,"name":"%s","tags":["%s","%s"],"value":%d.%02d,"nested":{"a":%d,"b":[%d,%d,null],"c":"%s"}}\n' % (
                i, words(rnd, 3), WORDS[rnd.next(len(WORDS))], WORDS[rnd.next(len(WORDS))], rnd.next(10000), rnd.next(100),
                rnd.next(1000), rnd.next(9), rnd.next(99), words(rnd, 5)))
        f.write("]\n")


def python_program(path):
    with open(path, "w") as f:
        f.write('''import json, re, collections
class Node:
    def __init__(self, key, parent):
        self.key, self.parent, self.children, self.weight = key, parent, {}, 0
def build(rows):
    root = Node("", None)
    for row in rows:
        node = root
        for word in row.split():
            child = node.children.get(word)
            if child is None:
                child = node.children[word] = Node(word, node)
            node = child
            node.weight += 1
    return root
state = 12345
def rnd(n):
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
    return (state >> 33) % n
W = "ledger stack frame symbol module page region heap block thread event record".split()
rows = [" ".join(W[rnd(len(W))] for _ in range(6)) for _ in range(30000)]
root = build(rows)
text = json.dumps([{"row": r, "n": i, "sq": [i * i, str(i)]} for i, r in enumerate(rows)])
back = json.loads(text)
counts = collections.Counter(w for r in back for w in r["row"].split())
swapped = [re.sub(r"(\\w+) (\\w+)", r"\\2 \\1", r) for r in rows]
by = collections.defaultdict(list)
for i, r in enumerate(swapped):
    by[r[:9]].append((i, r.upper(), {"k": i}))
print(len(text), counts.most_common(3), len(by), sum(len(v) for v in by.values()))
''')


def cpp_file(path):
    with open(path, "w") as f:
        f.write("#include <algorithm>\n#include <functional>\n#include <map>\n#include <memory>\n#include <regex>\n#include <string>\n"
                "#include <unordered_map>\n#include <vector>\n#include <iostream>\n")
        for i in range(10):
            f.write(f"""
template <class T, int N> struct shape{i} {{ std::map<std::string, std::vector<T>> table; std::unordered_map<int, std::shared_ptr<T>> cache;
  T fold(std::function<T(T, T)> f) const {{ T r{{}}; for (auto &e : table) for (auto &v : e.second) r = f(r, v + N); return r; }}
  void add(const std::string &k, T v) {{ table[k].push_back(v); cache[N] = std::make_shared<T>(v); std::sort(table[k].begin(), table[k].end(), [](auto a, auto b) {{ return a > b; }}); }} }};
int use{i}(int argc) {{ shape{i}<int, {i}> a; shape{i}<double, {i + 1}> b; shape{i}<long, {i + 2}> c; a.add("x", argc); b.add("y", argc * 1.5); c.add("z", argc);
  return a.fold([](int p, int q) {{ return p + q; }}) + (int)b.fold([](double p, double q) {{ return p * q; }}) + (int)c.fold([](long p, long q) {{ return p ^ q; }}); }}
""")
        f.write("int main(int argc, char **argv) { std::regex r(\"(a|b)+c\"); int s = std::regex_match(argv[0], r);\n")
        f.write("".join(f"  s += use{i}(argc);\n" for i in range(10)) + "  std::cout << s; return s; }\n")


def git_repository(path):
    """A history of 5,000 commits over 200 files, by fast-import: the same object names everywhere."""
    subprocess.run(["git", "init", "-q", "--bare", path], check=True)
    rnd = Random(SEED + 3)
    files = {}
    stream = []
    for c in range(5000):
        body = words(rnd, 20)
        stream.append(f"commit refs/heads/main\ncommitter A <a@example.org> {1600000000 + c * 600} +0000\ndata {len(body)}\n{body}\n")
        for _ in range(4):
            name = f"dir{rnd.next(20)}/file{rnd.next(10)}.txt"
            lines = files.setdefault(name, [words(rnd, 8) for _ in range(60)])
            lines[rnd.next(len(lines))] = words(rnd, 8)
            text = "\n".join(lines) + "\n"
            stream.append(f"M 100644 inline {name}\ndata {len(text)}\n{text}\n")
    subprocess.run(["git", "-C", path, "fast-import", "--quiet"], input="".join(stream).encode(), check=True)
    subprocess.run(["git", "-C", path, "repack", "-adq"], check=True)


def make(base):
    """Generate what is missing below @base; returns the folder, named after this file's text so that old inputs are not reused."""
    with open(__file__, "rb") as f:
        folder = f"{base}-{hashlib.sha256(f.read()).hexdigest()[:8]}"
    os.makedirs(folder, exist_ok=True)
    jobs = {
        "sqlite.sql": sqlite_script, "gawk.awk": gawk_program, "lines.txt": lambda p: text_lines(p, 60000),
        "perl.pl": perl_program, "big.json": lambda p: json_file(p, 30000), "program.py": python_program,
        "shapes.cc": cpp_file, "xz.txt": lambda p: text_lines(p, 20000), "repo.git": git_repository,
    }
    for name, job in jobs.items():
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            job(path + ".part")
            os.rename(path + ".part", path)
    return folder
