"""`citations`: every paper, datasheet and curve behind an answer, as text and as BibTeX.

Papers are listed in `citations.toml`; `RULES`, `OPTIMIZERS` and the pipeline schedules say when each is used. The
model, the numbers of the hardware and the efficiency curve bring their own sources along and are cited from there;
numbers that the user gave have none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache

from lockstep.base.documents.shipped import shipped_table
from lockstep.base.records import dataclass
from lockstep.decide.planner.estimate import Estimate
from lockstep.decide.planner.result import Plan
from lockstep.decide.planner.roofline import Roofline
from lockstep.describe.hardware.device import SCALED
from lockstep.price.layout import Job, Layout
from lockstep.simulate.parallel.pipeline import get

Answer = Estimate | Plan | Roofline


@dataclass(frozen=True, slots=True)
class Citation:
    """One source of an answer."""

    key: str
    text: str
    """For a person: authors, title, where, and what it was used for."""
    bibtex: str


@dataclass(frozen=True, slots=True)
class Paper:
    """One entry of `citations.toml`."""

    author: str
    title: str
    year: int
    what: str
    where: str = ""
    arxiv: str = ""
    url: str = ""

    def citation(self, key: str) -> Citation:
        """As text and BibTeX."""
        names = self.author.split(" and ")
        short = self.author if len(names) < 3 else f"{names[0]} and others"
        place = "; ".join(part for part in (self.where, f"arXiv {self.arxiv}" if self.arxiv else "", self.url) if part)
        fields = {"author": self.author, "title": f"{{{self.title}}}", "year": str(self.year)}
        if self.where:
            fields["journal"] = self.where
        if self.arxiv:
            fields |= {"eprint": self.arxiv, "archiveprefix": "arXiv"}
        if self.url:
            fields["url"] = self.url
        kind = "article" if self.where else "misc"
        return Citation(key, f"{short} ({self.year}): {self.title}. {place} [{self.what}]", _bibtex(kind, key, fields))


OPTIMIZERS: dict[str, tuple[str, ...]] = {
    "adam": ("kingma2015",),
    "adamw": ("kingma2015", "loshchilov2019"),
    "adamw-bf16-moments": ("loshchilov2019", "deepseek2024"),
    "adamw-8bit": ("loshchilov2019", "dettmers2022"),
    "adamw-8bit-torchao": ("loshchilov2019", "dettmers2022"),
    "adamw-4bit-torchao": ("loshchilov2019", "li2023"),
    "adamw-fp8-torchao": ("loshchilov2019",),
    "sgd": (),
    "sgd-momentum": (),
    "lion": ("chen2023",),
    "lion-8bit": ("chen2023", "dettmers2022"),
    "adafactor": ("shazeer2018",),
    "adafactor-torch": ("shazeer2018",),
    "muon": ("jordan2024", "loshchilov2019"),
    "galore": ("zhao2024", "loshchilov2019"),
    "soap": ("vyas2025",),
    "schedule-free-adamw": ("defazio2024", "loshchilov2019"),
}
"""Papers of an optimizer, whatever the formats of its parameters."""


def papers_of(optimizer: str) -> tuple[str, ...]:
    """Keys of an optimizer's papers."""
    name = optimizer.partition(":")[0]
    return OPTIMIZERS.get(name) or OPTIMIZERS[name.removesuffix("-no-master").removesuffix("-bf16")]


def _all_reduces(job: Job, layout: Layout) -> bool:
    """Whether anything is all-reduced: whole gradients, copies of shards, or tensor-parallel sums."""
    gradients = layout.dp * layout.cp > 1 and (layout.zero == 0 or layout.shard > 0)
    return gradients or (layout.tp > 1 and not layout.sequence_parallel)


Rule = Callable[[Job, Layout], bool]

RULES: tuple[tuple[str, Rule], ...] = (
    ("rajbhandari2020", lambda job, layout: True),
    ("chowdhery2022", lambda job, layout: True),
    ("narayanan2021", lambda job, layout: job.transformer is not None),
    ("korthikanti2022", lambda job, layout: job.transformer is not None),
    ("dao2023", lambda job, layout: job.attends and job.recipe.flash_attention),
    ("chetlur2014", lambda job, layout: job.transformer is None),
    ("dosovitskiy2020", lambda job, layout: job.images and job.transformer is not None),
    ("peebles2022", lambda job, layout: job.transformer is not None and job.transformer.modulation is not None),
    ("raffel2019", lambda job, layout: job.crosses),
    ("hockney1994", lambda job, layout: layout.world > 1),
    ("thakur2005", lambda job, layout: layout.world > 1),
    ("nccl", lambda job, layout: layout.world > 1),
    ("cho2019", lambda job, layout: layout.world > 1),
    ("patarasuk2009", lambda job, layout: layout.dp * layout.cp > 1 or layout.tp > 1),
    ("sanders2009", _all_reduces),
    ("shoeybi2019", lambda job, layout: layout.tp > 1),
    ("liu2023", lambda job, layout: layout.cp > 1 and job.recipe.cp_kind in ("ring", "mixed")),
    ("grattafiori2024", lambda job, layout: layout.cp > 1 and job.recipe.cp_kind == "gather"),
    ("jacobs2023", lambda job, layout: layout.cp > 1 and job.recipe.cp_kind == "all-to-all"),
    ("fang2024", lambda job, layout: layout.cp > 1 and job.recipe.cp_kind == "mixed"),
    ("yeung2024", lambda job, layout: job.recipe.spreads(layout.pp)),
    ("lepikhin2020", lambda job, layout: job.num_experts > 0),
    ("rajbhandari2022", lambda job, layout: layout.ep > 1),
    ("liu2025", lambda job, layout: job.num_experts > 0 and layout.ep * layout.expert_tp > 1),
    ("zhao2023", lambda job, layout: layout.zero == 3),
    ("zhang2022", lambda job, layout: layout.shard > 0),
    ("ren2021", lambda job, layout: layout.offload in ("optimizer", "parameters")),
    ("hu2021", lambda job, layout: job.recipe.adapters is not None),
    ("dettmers2023", lambda job, layout: job.recipe.base == "nf4" or layout.offload == "paged"),
    ("rafailov2023", lambda job, layout: job.recipe.objective.name == "dpo"),
    ("shao2024", lambda job, layout: job.recipe.objective.name == "grpo"),
    ("ouyang2022", lambda job, layout: job.recipe.objective.name == "ppo"),
    ("lv2023", lambda job, layout: job.recipe.update_in_backward),
)
"""(paper, when it is used), beside schedules and optimizers."""

UNUSED = ("tdp_W", "mtbf_s", "storage_write_Bps")
"""Numbers of the hardware that no step depends on."""

ROOFLINE = ("williams2009", "austin2025")
"""Papers of a roofline, beside those of its layout."""


@cache
def papers() -> dict[str, Paper]:
    """Every entry of `citations.toml` by key."""
    return {key: Paper(**entry) for key, entry in shipped_table("lockstep.decide.planner", "citations.toml").items()}


def citations(answer: Answer) -> tuple[Citation, ...]:
    """The sources of an estimate, a plan (its best layout's) or a roofline: papers, model, curve, then hardware."""
    found = answer.best if isinstance(answer, Plan) else answer
    keys = list(_papers_of(found.job, found.layout)) + list(ROOFLINE if isinstance(answer, Roofline) else ())
    cited = [papers()[key].citation(key) for key in dict.fromkeys(keys)]
    return (*cited, *_data(found))


def bibliography(answer: Answer) -> str:
    """The BibTeX file of an answer."""
    return "\n".join(one.bibtex for one in citations(answer))


def _papers_of(job: Job, layout: Layout) -> Iterator[str]:
    """Keys of the papers behind a layout's time and memory."""
    yield from (key for key, used in RULES if used(job, layout))
    if layout.pp > 1:
        yield from get(layout.schedule).papers
    yield from papers_of(job.recipe.optimizer)


def _data(found: Estimate | Roofline) -> Iterator[Citation]:
    """Where the model, the efficiency curve and the hardware's numbers come from; one citation per source."""
    model, cluster, schedule = found.job.model, found.cluster, get(found.layout.schedule)
    if model.source:
        yield _source(f"model-{model.name}", f"model {model.name}", "published", model.source, model.date)
    if found.layout.pp > 1 and not schedule.papers:
        name = schedule.name
        yield _source(f"schedule-{name}", f"pipeline schedule {name}", "published", schedule.source, "")
    curve = cluster.device.efficiency
    yield _source(f"efficiency-{curve.name}", f"kernel efficiency {curve.name}", curve.kind, curve.source, curve.date)
    owners = [(cluster.device.name, cluster.device.provenance)]
    owners += [(level.link.name, level.link.provenance) for level in cluster.levels if level.size > 1]
    owners.append((cluster.name, cluster.provenance))
    seen: set[str] = set()
    for owner, provenance in owners:
        for number, source in provenance.items():
            if _counts(number, found.job.recipe.dtype) and source.kind != "user" and source.text not in seen:
                seen.add(source.text)
                yield _source(f"{owner}-{number}", f"{owner}, {number}", source.kind, source.text, source.date)


def _counts(number: str, dtype: str) -> bool:
    """Whether a number of the hardware enters a step's time, memory or cost."""
    peak = f"peak_flops.{SCALED.get(dtype, dtype)}"
    return number not in UNUSED and not (number.startswith("peak_flops.") and number != peak)


def _source(key: str, what: str, kind: str, text: str, date: str) -> Citation:
    """A citation of a source that is no paper."""
    slug = re.sub(r"[^a-z0-9]+", "-", key.lower()).strip("-")
    fields = {"title": f"{{{text}}}", "note": f"{what}; {kind}"}
    if date:
        fields["year"] = date[:4]
    when = f" ({date})" if date else ""
    return Citation(slug, f"{what}: {text}{when} [{kind}]", _bibtex("misc", slug, fields))


def _bibtex(kind: str, key: str, fields: dict[str, str]) -> str:
    lines = "".join(f"  {name} = {{{_escaped(value)}}},\n" for name, value in fields.items())
    return f"@{kind}{{{key},\n{lines}}}\n"


def _escaped(text: str) -> str:
    """Characters that TeX would take for commands."""
    return re.sub(r"([&%$#_])", r"\\\1", text)
