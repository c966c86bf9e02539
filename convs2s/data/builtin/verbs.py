"""The verbs of the built-in English–German corpus, by their principal parts and by what they govern."""

from __future__ import annotations

from typing import NamedTuple

from convs2s.data.builtin.lexicon import Case, Noun, nouns_of


class Verb(NamedTuple):
    """A verb's principal parts in both languages, its government, and the nouns that may be its subject and object."""

    base: str
    third: str
    past: str
    participle: str
    ing: str  # "" for states (know), which have no progressive
    particle: str  # picks up the child, picks him up
    preposition: str  # looks for him
    infinitive: str  # anrufen
    simple: str  # without the separable prefix: rufen
    german_third: str
    preterite: str
    german_participle: str  # with the prefix: angerufen
    auxiliary: str  # haben or sein
    prefix: str  # separable prefix, "" for none
    german_preposition: str
    pattern: str  # none, accusative, dative, recipient (dative and accusative), motion
    case: Case  # of the object
    subjects: tuple[Noun, ...]
    objects: tuple[Noun, ...]


# English principal parts (of a regular verb the base alone; no -ing for states) | German ones, with a dot after a
# separable prefix and "ist" where the perfect has sein | kinds or nouns as objects; before ":" subjects, if not people.
VERB_ROWS = {
    "accusative": """
        see, sees, saw, seen | sehen, sieht, sah, gesehen | people animal : people animal thing opening transport
        find, finds, found, found | finden, findet, fand, gefunden | thing clothes animal book letter
        buy, buys, bought, bought, buying | kaufen, kauft, kaufte, gekauft | goods vehicle food mass drink
        sell, sells, sold, sold, selling | verkaufen, verkauft, verkaufte, verkauft | goods vehicle animal food
        look for | suchen, sucht, suchte, gesucht | people animal thing
        lose, loses, lost, lost | verlieren, verliert, verlor, verloren | thing hat jacket letter
        forget, forgets, forgot, forgotten | vergessen, vergisst, vergaß, vergessen | thing coat hat song
        draw, draws, drew, drawn, drawing | zeichnen, zeichnet, zeichnete, gezeichnet | people animal vehicle place
        wash | waschen, wäscht, wusch, gewaschen | clothes animal
        repair | reparieren, repariert, reparierte, repariert | device vehicle furniture opening
        clean | putzen, putzt, putzte, geputzt | opening furniture device vehicle knife bottle
        need, needs, needed, needed | brauchen, braucht, brauchte, gebraucht | furniture thing clothes device
        steal, steals, stole, stolen, stealing | stehlen, stiehlt, stahl, gestohlen | thing device vehicle food
        write, writes, wrote, written, writing | schreiben, schreibt, schrieb, geschrieben | text
        visit | besuchen, besucht, besuchte, besucht | people
        know, knows, knew, known | kennen, kennt, kannte, gekannt | people
        love, loves, loved, loved | lieben, liebt, liebte, geliebt | people animal
        eat, eats, ate, eaten, eating | essen, isst, aß, gegessen | food mass
        eat, eats, ate, eaten, eating | fressen, frisst, fraß, gefressen | animal : food bread cheese
        chase | jagen, jagt, jagte, gejagt | animal : animal
        drink, drinks, drank, drunk, drinking | trinken, trinkt, trank, getrunken | drink
        cook | kochen, kocht, kochte, gekocht | soup egg potato tea coffee
        bake | backen, backt, backte, gebacken | cake bread
        call | an·rufen, ruft, rief, gerufen | people
        invite | ein·laden, lädt, lud, geladen | people
        pick up | ab·holen, holt, holte, geholt | people suitcase bicycle letter
        bring back, brings, brought, brought, bringing | zurück·bringen, bringt, brachte, gebracht | thing book clothes
        take along, takes, took, taken, taking | mit·nehmen, nimmt, nahm, genommen | thing clothes child animal
        throw away, throws, threw, thrown, throwing | weg·werfen, wirft, warf, geworfen | thing text clothes food
        borrow | aus·leihen, leiht, lieh, geliehen | book vehicle umbrella suitcase knife chair
        turn on | ein·schalten, schaltet, schaltete, geschaltet | device
        turn off | aus·schalten, schaltet, schaltete, geschaltet | device
        try on | an·probieren, probiert, probierte, probiert | clothes
        open | auf·machen, macht, machte, gemacht | opening bag suitcase box bottle letter cupboard
        close | zu·machen, macht, machte, gemacht | opening bag suitcase box bottle cupboard
        lock | ab·schließen, schließt, schloss, geschlossen | opening cupboard suitcase box
        tidy up | auf·räumen, räumt, räumte, geräumt | kitchen cellar office garden""",
    "dative": """
        help | helfen, hilft, half, geholfen | people animal
        thank | danken, dankt, dankte, gedankt | people
        follow | folgen, folgt, folgte, ist gefolgt | people animal : people animal
        answer | antworten, antwortet, antwortete, geantwortet | people
        listen to | zu·hören, hört, hörte, gehört | people
        wait for | warten auf, wartet, wartete, gewartet | people transport
        think of, thinks, thought, thought, thinking | denken an, denkt, dachte, gedacht | people
        look after | auf·passen auf, passt, passte, gepasst | child animal
        dream of | träumen von, träumt, träumte, geträumt | people animal cake
        play with | spielen mit, spielt, spielte, gespielt | child animal : dog cat ball child
        talk with | sprechen mit, spricht, sprach, gesprochen | people""",
    "recipient": """
        give, gives, gave, given, giving | geben, gibt, gab, gegeben | thing text clothes food
        show, shows, showed, shown, showing | zeigen, zeigt, zeigte, gezeigt | thing text clothes animal vehicle device
        send, sends, sent, sent, sending | schicken, schickt, schickte, geschickt | text picture key
        bring, brings, brought, brought, bringing | bringen, bringt, brachte, gebracht | thing text food drink soup
        lend, lends, lent, lent, lending | leihen, leiht, lieh, geliehen | book vehicle umbrella suitcase coat knife
        offer | an·bieten, bietet, bot, geboten | food mass drink""",
    "none": """
        sleep, sleeps, slept, slept, sleeping | schlafen, schläft, schlief, geschlafen | people animal :
        work | arbeiten, arbeitet, arbeitete, gearbeitet | person kin :
        laugh | lachen, lacht, lachte, gelacht |
        cry | weinen, weint, weinte, geweint |
        sing, sings, sang, sung, singing | singen, singt, sang, gesungen | people bird :
        dance | tanzen, tanzt, tanzte, getanzt |
        get up, gets, got, got, getting | auf·stehen, steht, stand, ist gestanden |
        wake up, wakes, woke, woken, waking | auf·wachen, wacht, wachte, ist gewacht | people animal :
        fall asleep, falls, fell, fallen, falling | ein·schlafen, schläft, schlief, ist geschlafen | people animal :
        arrive | an·kommen, kommt, kam, ist gekommen | people transport :
        depart | ab·fahren, fährt, fuhr, ist gefahren | transport :
        come back, comes, came, come, coming | zurück·kommen, kommt, kam, ist gekommen | people animal transport :""",
    "motion": """
        go, goes, went, gone, going | gehen, geht, ging, ist gegangen |
        run, runs, ran, run, running | rennen, rennt, rannte, ist gerannt | people animal :
        drive, drives, drove, driven, driving | fahren, fährt, fuhr, ist gefahren | person kin :""",
    "that": """
        believe, believes, believed, believed | glauben, glaubt, glaubte, geglaubt |
        hope, hopes, hoped, hoped | hoffen, hofft, hoffte, gehofft |
        say, says, said, said | sagen, sagt, sagte, gesagt |
        know, knows, knew, known | wissen, weiß, wusste, gewusst |
        ask, asks, asked, asked | fragen, fragt, fragte, gefragt |""",
    "to": """
        try | versuchen, versucht, versuchte, versucht |
        promise, promises, promised, promised | versprechen, verspricht, versprach, versprochen |
        decide, decides, decided, decided | beschließen, beschließt, beschloss, beschlossen |""",
    "copula": """
        be, is, was, been | sein, ist, war, ist gewesen | :
        cost, costs, cost, cost | kosten, kostet, kostete, gekostet | :""",
}  # fmt: skip
PREPOSITION_CASES: dict[str, Case] = {"auf": "accusative", "an": "accusative", "von": "dative", "mit": "dative"}
PARTICLES = ("up", "back", "along", "away", "on", "off", "asleep")


def _regular(base: str) -> tuple[str, str, str, str]:
    if base.endswith("e"):
        return f"{base}s", f"{base}d", f"{base}d", f"{base[:-1]}ing"
    if base.endswith("y") and base[-2] not in "aeiou":
        return f"{base[:-1]}ies", f"{base[:-1]}ied", f"{base[:-1]}ied", f"{base}ing"
    return base + ("es" if base.endswith(("ch", "sh")) else "s"), f"{base}ed", f"{base}ed", f"{base}ing"


def _verb(pattern: str, row: str) -> Verb:
    english, german, nouns = (part.strip() for part in row.split("|"))
    subjects, _, objects = nouns.rpartition(":")
    base, *forms = english.split(", ")
    base, _, second = base.partition(" ")
    third, past, participle, ing = [*forms, ""][:4] if forms else _regular(base)
    infinitive, german_third, preterite, german_participle = german.split(", ")
    infinitive, _, german_preposition = infinitive.partition(" ")
    prefix, _, simple = infinitive.rpartition("·")
    case: Case = "dative" if pattern == "dative" else "accusative"
    return Verb(
        base=base,
        third=third,
        past=past,
        participle=participle,
        ing=ing,
        particle=second if second in PARTICLES else "",
        preposition="" if second in PARTICLES else second,
        infinitive=prefix + simple,
        simple=simple,
        german_third=german_third,
        preterite=preterite,
        german_participle=prefix + german_participle.removeprefix("ist "),
        auxiliary="sein" if german_participle.startswith("ist ") else "haben",
        prefix=prefix,
        german_preposition=german_preposition,
        pattern=pattern,
        case=PREPOSITION_CASES.get(german_preposition, case),
        subjects=nouns_of(subjects or "people"),
        objects=nouns_of(objects),
    )


VERBS = {
    verb.infinitive: verb
    for pattern, rows in VERB_ROWS.items()
    for verb in (_verb(pattern, row) for row in rows.split("\n")[1:])
}
