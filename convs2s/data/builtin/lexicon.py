"""The words of the built-in English–German corpus, as tables that a reader of both languages can check by eye.

Every English word (in its class and with its kind of subject or object) has exactly one German counterpart, so that the
German of a sentence is a function of the English and a perfect translator reaches BLEU 100. Hence no English verb
whose base and past look alike (put, read), no noun that has no plural ending (fish), and one gender per profession.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Case = Literal["nominative", "accusative", "dative"]
HUMAN = ("person", "kin", "child")
GENDERS = {"der": 0, "die": 1, "das": 2}  # columns of the declension tables; 3 is the plural


class Noun(NamedTuple):
    """A noun; ``weak``: accusative and dative singular take the plural's form (den Jungen, dem Nachbarn)."""

    english: str
    english_plural: str  # "" for what is not counted (milk)
    german: str
    german_plural: str
    gender: int  # 0 masculine, 1 feminine, 2 neuter
    weak: bool
    kind: str

    @property
    def human(self) -> bool:
        """People are he or she, everything else is it."""
        return self.kind in HUMAN

    @property
    def head(self) -> str:
        """What decides which verbs go with the noun: of a garden door, the door."""
        return self.english.rpartition(" ")[2]


class Adjective(NamedTuple):
    """An adjective: ``stem`` takes the endings (teuer: ein teurer Ring); "" for comparatives that make no sense."""

    english: str
    german: str
    stem: str
    english_comparative: str
    german_comparative: str
    kinds: tuple[str, ...]


NOUN_ROWS = {
    "person": """
        man man-men der Mann Männer
        woman woman-women die Frau Frauen
        teacher -s die Lehrerin Lehrerinnen
        doctor -s die Ärztin Ärztinnen
        student -s die Studentin Studentinnen
        painter -s die Malerin Malerinnen
        singer -s die Sängerin Sängerinnen
        baker -s der Bäcker Bäcker
        chef -s der Koch Köche
        farmer -s der Bauer* Bauern
        policeman policeman-policemen der Polizist* Polizisten
        tourist -s der Tourist* Touristen""",
    "kin": """
        brother -s der Bruder Brüder
        sister -s die Schwester Schwestern
        uncle -s der Onkel Onkel
        aunt -s die Tante Tanten
        grandmother -s die Großmutter Großmütter
        grandfather -s der Großvater Großväter
        friend -s der Freund Freunde
        neighbour -s der Nachbar* Nachbarn""",
    "child": """
        boy -s der Junge* Jungen
        girl -s das Mädchen Mädchen
        child child-children das Kind Kinder""",
    "animal": """
        dog -s der Hund Hunde
        cat -s die Katze Katzen
        horse -s das Pferd Pferde
        bird -s der Vogel Vögel
        cow -s die Kuh Kühe
        mouse mouse-mice die Maus Mäuse""",
    "thing": """
        ball -s der Ball Bälle
        picture -s das Bild Bilder
        bag -s die Tasche Taschen
        umbrella -s der Regenschirm Regenschirme
        bottle -s die Flasche Flaschen
        knife knife-knives das Messer Messer
        suitcase -s der Koffer Koffer
        box box-boxes die Kiste Kisten
        key -s der Schlüssel Schlüssel""",
    "furniture": """
        chair -s der Stuhl Stühle
        table -s der Tisch Tische
        cupboard -s der Schrank Schränke
        clock -s die Uhr Uhren""",
    "opening": """
        door -s die Tür Türen
        window -s das Fenster Fenster
        gate -s das Tor Tore""",
    "device": """
        lamp -s die Lampe Lampen
        radio -s das Radio Radios
        computer -s der Computer Computer
        stove -s der Herd Herde""",
    "text": """
        book -s das Buch Bücher
        letter -s der Brief Briefe
        story story-stories die Geschichte Geschichten
        poem -s das Gedicht Gedichte
        song -s das Lied Lieder""",
    "clothes": """
        coat -s der Mantel Mäntel
        shirt -s das Hemd Hemden
        dress dress-dresses das Kleid Kleider
        jacket -s die Jacke Jacken
        hat -s der Hut Hüte""",
    "vehicle": """
        car -s das Auto Autos
        bicycle -s das Fahrrad Fahrräder
        boat -s das Boot Boote""",
    "transport": """
        train -s der Zug Züge
        bus bus-buses der Bus Busse
        ship -s das Schiff Schiffe""",
    "food": """
        apple -s der Apfel Äpfel
        pear -s die Birne Birnen
        egg -s das Ei Eier
        potato potato-potatoes die Kartoffel Kartoffeln
        sausage -s die Wurst Würste
        cake -s der Kuchen Kuchen""",
    "mass": """
        bread - das Brot -
        cheese - der Käse -
        soup - die Suppe -""",
    "drink": """
        milk - die Milch -
        water - das Wasser -
        tea - der Tee -
        coffee - der Kaffee -
        juice - der Saft -""",
    "place": """
        garden -s der Garten Gärten
        kitchen -s die Küche Küchen
        cellar -s der Keller Keller
        office -s das Büro Büros
        school -s die Schule Schulen
        church church-churches die Kirche Kirchen
        museum -s das Museum Museen
        hotel -s das Hotel Hotels
        forest -s der Wald Wälder
        park -s der Park Parks
        station -s der Bahnhof Bahnhöfe
        market -s der Markt Märkte
        river -s der Fluss Flüsse
        bridge -s die Brücke Brücken""",
}

# Where somebody is (German: dative) and where somebody goes: preposition and case of each; the other places take "in".
INSIDE: tuple[str, str, str, str, Case] = ("in", "in", "into", "in", "accusative")
PREPOSITIONS: dict[str, tuple[str, str, str, str, Case]] = {
    "station": ("at", "an", "to", "zu", "dative"),
    "market": ("at", "auf", "to", "zu", "dative"),
    "river": ("at", "an", "to", "zu", "dative"),
    "bridge": ("on", "auf", "onto", "auf", "accusative"),
}

# First parts of compounds, with the German linking element; second parts, each with the first parts that it goes with.
LINKS = {
    "garden": "Garten", "kitchen": "Küchen", "cellar": "Keller", "office": "Büro", "school": "Schul",
    "church": "Kirchen", "library": "Bibliotheks", "museum": "Museums", "hotel": "Hotel", "station": "Bahnhofs",
}  # fmt: skip
HEADS = {head: tuple(LINKS) for head in ("key", "chair", "table", "cupboard", "clock", "door", "window", "lamp")}
HEADS["gate"] = ("garden", "school", "church", "museum", "hotel", "station")

# english german[/stem] comparatives : kinds of nouns described.
ADJECTIVE_ROWS = """
    old alt older älter : person kin animal thing furniture opening device text clothes vehicle transport place
    new neu newer neuer : thing furniture opening device text clothes vehicle transport
    young jung younger jünger : person animal
    tall groß taller größer : person child kin
    big groß bigger größer : animal thing furniture opening vehicle transport place
    small klein smaller kleiner : child animal thing furniture opening device vehicle food place
    beautiful schön more schöner : animal thing furniture opening text clothes vehicle place
    heavy schwer heavier schwerer : thing furniture opening device
    cheap billig cheaper billiger : thing furniture device clothes vehicle
    expensive teuer/teur more teurer : thing furniture device clothes vehicle
    red rot - - : thing furniture opening device clothes vehicle transport
    green grün - - : thing furniture opening device clothes vehicle transport
    blue blau - - : thing furniture opening device clothes vehicle transport
    white weiß - - : thing furniture opening device clothes vehicle animal
    black schwarz - - : thing furniture opening device clothes vehicle animal
    fresh frisch fresher frischer : food mass
    cold kalt colder kälter : drink
    hot heiß hotter heißer : drink
    dirty schmutzig dirtier schmutziger : clothes animal vehicle
    broken kaputt - - : opening device vehicle
    dark dunkel/dunkl darker dunkler : place
    long lang longer länger : text
    short kurz shorter kürzer : text
    friendly freundlich friendlier freundlicher : person child kin animal
    clever klug cleverer klüger : person child kin animal
    brave mutig braver mutiger : person child kin animal
    famous berühmt more berühmter : person
    rich reich richer reicher : person kin
    poor arm poorer ärmer : person
    tired müde/müd - - : person child animal kin
    hungry hungrig - - : person child animal kin
    happy glücklich - - : person child kin
    sick krank - - : person child animal kin"""
# Names for several kinds at once: goods are what one buys.
GROUPS = {"people": "person kin child", "goods": "thing furniture device text clothes"}


def _nouns() -> dict[str, Noun]:
    nouns = {}
    for kind, rows in NOUN_ROWS.items():
        for row in rows.split("\n")[1:]:
            english, plural, article, german, german_plural = row.split()
            plural = "" if plural == "-" else english + "s" if plural == "-s" else plural.split("-")[1]
            weak = german.endswith("*")
            nouns[english] = Noun(
                english, plural, german.rstrip("*"), german_plural.strip("-"), GENDERS[article], weak, kind
            )
    return nouns


NOUNS = _nouns()


def nouns_of(names: str) -> tuple[Noun, ...]:
    """The nouns meant by a list of groups (people), kinds (animal) and single nouns (dog), in the tables' order.

    Heads of compounds come twice, so that compounds are drawn often enough to be learnt.
    """
    wanted = set(" ".join(GROUPS.get(name, name) for name in names.split()).split())
    found = [noun for noun in NOUNS.values() if noun.kind in wanted or noun.english in wanted]
    return tuple(noun for noun in found for _ in range(2 if noun.english in HEADS else 1))


def _adjectives() -> dict[str, Adjective]:
    adjectives = {}
    for row in ADJECTIVE_ROWS.split("\n")[1:]:
        words, kinds = row.split(":")
        english, german, comparative, german_comparative = words.split()
        german, _, stem = german.partition("/")
        comparative = f"more {english}" if comparative == "more" else comparative.strip("-")
        adjectives[english] = Adjective(
            english, german, stem or german, comparative, german_comparative.strip("-"), tuple(kinds.split())
        )
    return adjectives


ADJECTIVES = _adjectives()


def compound(modifier: str, head: Noun) -> Noun:
    """A compound noun: two words in English, one in German, with its head's gender (garden door: die Gartentür)."""
    return head._replace(
        english=f"{modifier} {head.english}",
        english_plural=f"{modifier} {head.english_plural}",
        german=LINKS[modifier] + head.german.lower(),
        german_plural=LINKS[modifier] + head.german_plural.lower(),
    )
