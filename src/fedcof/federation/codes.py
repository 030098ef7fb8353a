"""What the codes of a report mean, and what an operator does about them."""

from __future__ import annotations

from typing import NamedTuple


class Code(NamedTuple):
    """A code in words."""

    meaning: str
    to_do: str


_SITE_LOG = "the SuperNode's log has the whole error"

_ASK = "take one that it allows, or leave the site out: it decides what leaves it"

CODES = {
    "address": Code(
        "a message of a sum from another, or to another",
        "treat the site as hostile or broken: it runs other code than fedcof's",
    ),
    "asked-twice": Code(
        "a step of a sum that this client had taken: a copy of a question, or a killed process",
        "nothing, if it was killed; else the server runs other code than fedcof's",
    ),
    "bytes": Code(
        "a message of a sum that is cut off or altered",
        "run again; if it stays, the site runs other code than fedcof's",
    ),
    "classes": Code(
        "a class that is not among `classes`, or more than `max-classes`",
        "the site renames its labels, or `classes` names this one too",
    ),
    "client-id": Code(
        "a client's id that cannot be used",
        "the site gives the client a printable id of at most 200 characters",
    ),
    "client-ids": Code(
        "the summary of another client, or of several",
        "treat the site as hostile or broken: it runs other code than fedcof's",
    ),
    "coding": Code(
        "numbers in a coding that this version does not read",
        "install the same version of fedcof at both",
    ),
    "corrupt": Code(
        "bytes that are no summary, or were altered on the way",
        "run again; if it stays, the site runs other code, or its disk or memory is broken",
    ),
    "counts": Code(
        "counts of samples that cannot be, such as 0 or below",
        "treat the site as hostile or broken: it runs other code than fedcof's",
    ),
    "dim": Code(
        "features of another length than the method or the others have",
        "the site names the same `backbone`, or makes its features with the same network",
    ),
    "dtype": Code(
        "numbers of another type than is declared",
        "the site makes its features numbers; texts in a column of features are named in its log",
    ),
    "dry-run": Code(
        "a site that only says what it would send, in its log",
        "the site takes `dry-run` out of `--node-config` when it agrees",
    ),
    "duplicate-client": Code(
        "one client twice in a site's data",
        "the site's `load_data` gives each client once",
    ),
    "empty": Code(
        "no samples or no classes", "the site looks at its data, or the client is left out"
    ),
    "features": Code(
        "features that are no rows of numbers", f"the site looks at its data; {_SITE_LOG}"
    ),
    "ignore": Code("a label to leave out that is none", "the site names a label that it has"),
    "keys": Code(
        "a public key that is none",
        "treat the site as hostile or broken: it runs other code than fedcof's",
    ),
    "kind": Code(
        "the statistic of another method",
        "install the same version of fedcof at both",
    ),
    "labels": Code(
        "labels that are missing, or not one for each sample",
        f"the site looks at its data; {_SITE_LOG}",
    ),
    "layout": Code(
        "another list of arrays, bounds or clients than the client was told",
        "install the same version of fedcof at both",
    ),
    "length": Code(
        "masked numbers of another length than the sum",
        "install the same version of fedcof at both; else treat the site as hostile",
    ),
    "means": Code(
        "no client with two means of a class, which the method needs",
        "take a larger `means-per-class`, or the method fedcof",
    ),
    "no-backbone": Code(
        "images, and the run names no backbone", 'name one: `backbone="squeezenet1.1"`'
    ),
    "no-data": Code(
        "a site that names no data, or data that is not there",
        "the site mends `data` in `--node-config`; its path starts where the SuperNode was started",
    ),
    "no-images": Code(
        "features, where a network is to be trained", 'take `train-mode="probe"`, or images'
    ),
    "no-notes": Code(
        "a cache folder at the site that cannot be written, so it takes no part in a sum",
        "the site sets `FEDCOF_CACHE` to a folder that the SuperNode may write",
    ),
    "non-finite": Code(
        "NaN or infinity among the features", "the site looks for missing values in its data"
    ),
    "origin": Code(
        "features of another backbone than those of most",
        "the site takes the backbone that the run names, with the same weights",
    ),
    "other-network": Code(
        "a network with other weights or another preprocessing than the server's",
        "install the same weights at both; see the guide to backbones",
    ),
    "other-class": Code(
        "a site that merges its small classes into one of a name that it cannot have",
        "the site names another one in its policy, or withholds small classes",
    ),
    "out-of-turn": Code(
        "a question of a sum that the client is not in, as after its SuperNode was started again",
        "nothing: the next attempt asks it from the start",
    ),
    "overflow": Code(
        "numbers so large that their sums are none", "the site scales its features as the others do"
    ),
    "penalties": Code(
        "penalties that the method does not have", "install the same version of fedcof at both"
    ),
    "policy": Code(
        "a site whose policy cannot be read, so that nothing leaves it",
        f"the site mends its policy or `--node-config`; {_SITE_LOG}",
    ),
    "policy-backbones": Code("a backbone that the site's policy does not allow", _ASK),
    "policy-budget": Code(
        "a job without differential privacy, or with more epsilon or delta than the site has left",
        "take a smaller epsilon, or leave the site out; what it has spent does not come back",
    ),
    "policy-classes": Code(
        "a job that shows which classes a client holds, which the site's policy hides",
        "ask for sums over clients, by secure rounds",
    ),
    "policy-codings": Code("a coding that the site's policy does not allow", _ASK),
    "policy-means-per-class": Code(
        "more means of a class than the site's policy allows", "take fewer `means-per-class`"
    ),
    "policy-methods": Code("a method that the site's policy does not allow", _ASK),
    "policy-min-samples": Code(
        "noise by sample, at a site that withholds small classes, for which it is not made",
        'ask for `neighbours="client"`, or the site takes `min-samples` out of its policy',
    ),
    "policy-own-data-only": Code(
        "data that the server names, where the site's policy wants its own",
        "the site names `data` in `--node-config`",
    ),
    "policy-training": Code(
        "training, which the site's policy does not allow", "train without the site, or not at all"
    ),
    "policy-transforms": Code("a transform that the site's policy does not allow", _ASK),
    "privacy": Code(
        "a sum with too few clients, or too few samples, for its noise",
        "wait for more clients, or take a larger `epsilon`",
    ),
    "privacy-budget": Code(
        "a client whose privacy budget is spent, or whose ledger cannot be used",
        "the run asks for a smaller epsilon, or who owns the data raises the budget",
    ),
    "products": Code(
        "sketches of another random matrix than the server's",
        "solve with the `matrix-seed` with which they were made",
    ),
    "raised": Code(
        "an error in the site's own code or data; its class follows, its text stays at the site",
        _SITE_LOG,
    ),
    "range": Code(
        "numbers beyond what the coding can hold, or than a sum allows",
        "take another `coding`, or none; in secure rounds a larger `radius`",
    ),
    "rank": Code(
        "a sketch with more vectors than the scatter has rank",
        "install the same version of fedcof at both; else treat the site as hostile",
    ),
    "roster": Code(
        "a list of keys that contradicts itself",
        "the server runs other code than fedcof's; the site asks its operator",
    ),
    "rows": Code(
        "more rows for a class than the method sends",
        "install the same version of fedcof at both; else treat the site as hostile",
    ),
    "run": Code(
        "a message of another sum",
        "treat the site as hostile or broken: it runs other code than fedcof's",
    ),
    "samples": Code(
        "more samples than a client may have, or than the site announced",
        "raise `max-samples` if the client really has them; else treat the site as hostile",
    ),
    "schema": Code(
        "a summary of another version of fedcof", "install the same version of fedcof at both"
    ),
    "shape": Code(
        "arrays whose lengths do not go together",
        "install the same version of fedcof at both; else treat the site as hostile",
    ),
    "shares": Code(
        "shares of a secret that are false, or were altered",
        "treat the site as hostile or broken",
    ),
    "signature": Code(
        "keys that are not signed by the site that has the client, for this very job",
        "compare `known-sites` with the keys of the sites, and the versions of fedcof",
    ),
    "signing-key": Code(
        "a file of a site's key that cannot be read",
        "the site mends `signing-key` in `--node-config`; it is the SuperNode's ECDSA key",
    ),
    "steps": Code(
        "steps that do not go with noise on a sum",
        "take them out of `steps`; a server that follows the protocol refuses them itself",
    ),
    "sum": Code("a sum that is not that of its parts", "treat the site as hostile or broken"),
    "survivors": Code(
        "another list of clients than the others saw",
        "the server runs other code than fedcof's; the site asks its operator",
    ),
    "terms": Code(
        "a sum that protects less than the site asks for",
        "raise `colluders` or `min-clients` at the server",
    ),
    "too-few": Code(
        "too few of a client's neighbours are left in a sum",
        "run again once they are back; a larger `dropouts`",
    ),
    "too-large": Code(
        "a summary that is longer than `max-message`", "raise `max-message` at the server"
    ),
    "total": Code("a total that is not that of its parts", "treat the site as hostile or broken"),
    "trace": Code(
        "a sketch of scatter whose trace is below 0",
        "treat the site as hostile or broken",
    ),
    "transform": Code(
        "features under another transform than the run's",
        "install the same version of fedcof at both",
    ),
    "turn": Code(
        "a message of a sum that is not the next one",
        "treat the site as hostile or broken: it runs other code than fedcof's",
    ),
    "unclear": Code(
        "a code that is none",
        "treat the site as hostile or broken: it runs other code than fedcof's",
    ),
    "unknown-client": Code(
        "a client that the run folder does not hold", "look for its id with inspect"
    ),
    "unreadable": Code(
        "no image of the client that can be read", f"the site looks at its files; {_SITE_LOG}"
    ),
    "version": Code(
        "messages of sums of another version of fedcof",
        "install the same version of fedcof at both",
    ),
    "withheld": Code(
        "a site that withholds all of the client, such as classes of few samples",
        "nothing: the site decides what leaves it",
    ),
}


def code_in(reason: str) -> str:
    """Return the code that a reason begins with.

    Examples
    --------
    >>> code_in("raised:ValueError (at the client)")
    'raised'
    """
    return reason.partition(":")[0].partition(" ")[0]


def in_words(reason: str) -> str:
    """Return a reason of the report with the meaning of its code and what to do.

    Examples
    --------
    >>> in_words("too-large (at the client)")
    'a summary that is longer than `max-message`; raise `max-message` at the server'
    >>> in_words("its SuperNode is offline")
    ''
    """
    found = CODES.get(code_in(reason))
    return "" if found is None else f"{found.meaning}; {found.to_do}"
