"""The options: limits, layers, digest, and the round trip through TOML."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vber_cli.config import OPTIONS, MergeOptions, nearest, parse_toml, read_toml, to_toml
from vber_cli.config.checks import parse_loss, parse_memory
from vber_cli.errors import UsageError

# One value other than the default for every option.
OTHER = {
    "files": ("a.csv", "b=x y.parquet"),
    "K": 7,
    "out": "elsewhere",
    "id": ("db:key",),
    "fields": ("name", "a,b"),
    "exclude": ("note",),
    "map": ("police:sur name=name",),
    "type": ("*=category",),
    "null": ("-9",),
    "delimiter": "\t",
    "encoding": "latin-1",
    "prior": "uniform",
    "concentration": 0.05,
    "no_duplicates": ("clinic",),
    "link": True,
    "dedupe": True,
    "must_link": ("yes.csv",),
    "cannot_link": ("no.csv",),
    "decisions": ("pairs.csv",),
    "independent": True,
    "max_sweeps": 3,
    "tol": 1e-4,
    "start": "random",
    "start_from": "before",
    "moves": False,
    "loss": "fp=2,fn=1",
    "link_min": 0.5,
    "phi_min": 0.0,
    "records": False,
    "seed": 11,
    "threads": 2,
    "max_memory": "4G",
    "max_time": "1h30m",
    "resume": True,
    "force": True,
    "stdout": "links",
    "quiet": True,
    "verbose": True,
    "log_json": True,
    "debug": True,
}


def test_every_option_has_another_value_here():
    assert list(OTHER) == [field.name for field in dataclasses.fields(MergeOptions)] == list(OPTIONS)


@pytest.mark.parametrize("name", OTHER)
def test_every_option_survives_toml(name):
    options = MergeOptions(**{name: OTHER[name]})
    assert options != MergeOptions()
    assert MergeOptions.layered(parse_toml(to_toml(options), "x.toml"), {}) == options


@pytest.mark.parametrize("name", OTHER)
def test_the_digest_changes_with_what_changes_the_result(name):
    changed = MergeOptions(**{name: OTHER[name]}).digest() != MergeOptions().digest()
    assert changed == OPTIONS[name].in_digest
    manners = {
        "files", "out", "threads", "max_memory", "max_time", "resume",
        "force", "stdout", "records", "quiet", "verbose", "log_json", "debug",
    }  # fmt: skip
    manners |= {"must_link", "cannot_link", "decisions", "start_from"}  # their content counts, not where it lies
    assert OPTIONS[name].in_digest == (name not in manners)


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)


@given(st.lists(texts, max_size=3), st.lists(texts, max_size=3), texts.filter(str.strip))
def test_any_text_survives_toml(files, null, out):
    options = MergeOptions(files=tuple(files), null=tuple(null), out=out)
    assert MergeOptions.layered(parse_toml(to_toml(options), "x.toml"), {}) == options


def test_defaults_below_file_below_command_line():
    from_file = parse_toml('[merge]\nK = 5\nseed = 1\nfields = ["a", "b"]\n', "x.toml")
    options = MergeOptions.layered(from_file, {"seed": 2, "fields": ("c",)})
    assert (options.K, options.seed, options.fields, options.tol) == (5, 2, ("c",), 1e-8)


def test_the_command_line_can_return_to_a_default():
    from_file = parse_toml('[merge]\nK = 5\nconcentration = 0.1\nstdout = "links"\n', "x.toml")
    given_values = {
        name: OPTIONS[name].parse(word)
        for name, word in [("K", "auto"), ("concentration", "learned"), ("stdout", "none")]
    }
    assert MergeOptions.layered(from_file, given_values) == MergeOptions()


def test_quiet_on_the_command_line_silences_a_verbose_file():
    assert MergeOptions.layered({"verbose": True, "log_json": True}, {"quiet": True}) == MergeOptions(quiet=True)
    assert MergeOptions.layered({"quiet": True}, {"verbose": True}) == MergeOptions(verbose=True)
    with pytest.raises(UsageError, match="contradict"):
        MergeOptions(quiet=True, log_json=True)


def test_keys_take_hyphen_or_underscore():
    assert parse_toml("[merge]\nmax-sweeps = 3\nlink_min = 0\n", "x") == {"max_sweeps": 3, "link_min": 0.0}


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("[merge]\nmax-sweep = 3\n", "unknown option 'max-sweep'", "'max-sweeps'"),
        ("[merge]\nk = 3\n", "unknown option 'k'", "'K'"),
        ("[merge]\nno-moves = true\n", "unknown option 'no-moves'", "'moves'"),
        ("[merge]\nzzzzzzzz = 3\n", "unknown option 'zzzzzzzz'", "config show"),
        ("[merge]\nmax-sweeps = 3\nmax_sweeps = 3\n", "twice", "one"),
        ("K = 3\n", "sets 'K' outside", "[merge]"),
        ("[mrege]\nK = 3\n", "unknown name 'mrege'", "[merge]"),
        ("merge = 3\n", "not a table", "[merge]"),
        ("[merge]\nK = \n", "not valid TOML", "quotes"),
        ("[merge]\nK = 0\n", "x.toml: K must be at least 1, not 0", "whole number"),
        ("[merge]\nK = true\n", "x.toml: K must be a whole number or auto", "auto"),
        ("[merge]\nK = 2.5\n", "x.toml: K must be a whole number or auto, not 2.5", "auto"),
        ("[merge]\nseed = 'auto'\n", "x.toml: seed must be a whole number", "whole"),
        ("[merge]\nmoves = 'yes'\n", "x.toml: moves must be true or false", "true"),
        ("[merge]\nfields = 3\n", "x.toml: fields must be a list", "list"),
        ("[merge]\nfields = [3]\n", "x.toml: fields must be a list", "list"),
        ("[merge]\ntol = nan\n", "finite", "number"),
        ("[merge]\nprior = 'uniforme'\n", "prior cannot be 'uniforme'", "uniform"),
        ("[merge]\nstart = 3\n", "start must be one of", "records"),
        ("[merge]\ntype = ['age=nummer']\n", "unknown type", "age=number"),
    ],
)
def test_a_wrong_file_is_refused(text, what, fix):
    with pytest.raises(UsageError) as caught:
        parse_toml(text, "x.toml")
    assert what in caught.value.what
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("K", "0"), ("K", "-1"), ("K", "1.5"), ("K", ""), ("K", "many"), ("concentration", "0"),
        ("concentration", "inf"), ("concentration", "nan"), ("max_sweeps", "0"), ("tol", "0"), ("tol", "-1"),
        ("link_min", "1.1"), ("phi_min", "-0.1"), ("seed", "-1"), ("threads", "0"), ("map", "a=b"), ("map", "a:b"),
        ("map", "a:=b"), ("type", "category"), ("type", "a=caetgory"), ("delimiter", ";;"),
        ("delimiter", ""), ("encoding", ""), ("out", " "), ("loss", "fp=1,fx=1"), ("loss", "fp=0"),
        ("loss", "1"), ("loss", "fp=1,fp=2"), ("max_memory", "4X"), ("max_memory", "-1G"),
        ("max_memory", "0"),
        ("max_time", "soon"), ("max_time", "0s"), ("max_time", "1h x"), ("max_time", ""), ("stdout", "phi"), ("id", ""),
    ],
)  # fmt: skip
def test_a_wrong_argument_names_its_option(name, text):
    with pytest.raises(UsageError) as caught:
        OPTIONS[name].parse(text)
    assert OPTIONS[name].label in caught.value.what
    assert caught.value.fix


def test_constructing_checks():
    with pytest.raises(UsageError, match="--K must be at least 1, not 0"):
        MergeOptions(K=0)
    with pytest.raises(UsageError, match="--seed needs a value"):
        MergeOptions(seed=None)


def test_columns_split_at_commas_outside_quotes():
    assert OPTIONS["fields"].parse('first, "last, first" ,x') == ("first", "last, first", "x")
    assert OPTIONS["null"].parse("a,b") == ("a,b",)


def test_tab_has_a_name():
    assert OPTIONS["delimiter"].parse("tab") == OPTIONS["delimiter"].parse(r"\t") == "\t"
    assert parse_toml("[merge]\ndelimiter = 'tab'\n", "x") == {"delimiter": "\t"}


def test_loss_and_memory():
    assert parse_loss("fn=3") == (1.0, 3.0)
    assert parse_loss("fp = 0.5, fn = 2") == (0.5, 2.0)
    assert [parse_memory(text) for text in ("1k", "2MB", "1.5GiB", "1T", "77", "77b")] == [
        1024, 2 << 20, 3 << 29, 1 << 40, 77, 77,
    ]  # fmt: skip
    assert MergeOptions(max_memory="2K").max_memory_bytes == 2048
    assert MergeOptions().max_memory_bytes is None


def test_times_are_read():
    for text, seconds in {
        "90s": 90,
        "90": 90,
        "15m": 900,
        "2h": 7200,
        "1h30m": 5400,
        "1.5h": 5400,
        "1d": 86400,
    }.items():
        assert MergeOptions(max_time=text).max_seconds == seconds
    assert MergeOptions().max_seconds is None
    assert MergeOptions().loss_weights == (1.0, 1.0)


def test_read_toml(tmp_path):
    path = tmp_path / "run.toml"
    path.write_bytes(b"\xef\xbb\xbf[merge]\r\nK = 4\r\n")
    assert read_toml(str(path)) == {"K": 4}
    path.write_bytes(b"[merge]\nout = '\xff'\n")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_toml(str(path))
    with pytest.raises(UsageError, match="No such file"):
        read_toml(str(tmp_path / "absent.toml"))


def test_an_undecodable_name_is_refused_in_toml():
    with pytest.raises(UsageError, match="cannot be written in TOML"):
        to_toml(MergeOptions(files=("\udcff.csv",)))
    assert len(MergeOptions(null=("\udcff",)).digest()) == 64


def test_out_is_written_when_it_was_given():
    assert "\nout = " not in to_toml(MergeOptions())
    assert '\nout = "vber-out"\n' in to_toml(MergeOptions(), {"out"})


def test_nearest():
    assert nearest("k", ["K", "map"]) == "K"
    assert nearest("qqqq", ["K", "map"]) is None


def test_to_dict_is_plain():
    assert MergeOptions(files=("a",)).to_dict()["files"] == ["a"]
    assert list(MergeOptions().to_dict()) == list(OPTIONS)


def test_link_and_dedupe_contradict_each_other():
    with pytest.raises(UsageError, match="--link and --dedupe"):
        MergeOptions(link=True, dedupe=True)


@pytest.mark.parametrize("other", [{"moves": False}, {"independent": True}, {"concentration": 0.1}])
def test_start_from_and_what_would_overrule_it_contradict_each_other(other):
    with pytest.raises(UsageError, match=f"--start-from and --(no-)?{next(iter(other))} contradict"):
        MergeOptions(start_from="before", **other)


def test_the_content_of_further_files_changes_the_digest():
    options = MergeOptions(must_link=("a.csv",))
    assert options.digest() == MergeOptions().digest()
    assert len({options.digest(), options.digest(["must_link:1"]), options.digest(["cannot_link:1"])}) == 3


@pytest.mark.parametrize(
    "text", ['out = "a\\u0000b"', 'fields = ["a", "\\u0000"]', "K = 9" + "9" * 400, "x = " + "[" * 5000]
)
def test_what_no_run_can_use_is_refused(text):
    with pytest.raises(UsageError):
        parse_toml(f"[merge]\n{text}\n", "x.toml")
