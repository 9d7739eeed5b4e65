"""Names of streets, parks and shops, of words that everybody can read from a sign."""

STREETS = (
    "Oak", "Elm", "Maple", "Cedar", "Birch", "Willow", "Walnut", "Chestnut", "Linden", "Poplar", "River", "Lake", "Hill",
    "Bridge", "Mill", "Market", "Church", "School", "Station", "Garden", "King", "Queen", "Castle", "Harbor", "Spring",
    "Summer", "Sun", "Star", "North", "Union",
)  # fmt: skip
PARKS = ("Rose", "Swan", "Fountain", "Meadow", "Orchard", "Liberty", "Victoria", "Pine", "Heron", "Clover")
SHOP_NAMES = (
    "ALMA", "ANNA", "ARLO", "AVA", "BELLA", "BORIS", "BRUNO", "CARA", "CLEO", "CORA", "DANA", "DIEGO", "DORA", "EDEN",
    "ELLA", "EMIL", "ENZO", "ERIK", "EVA", "FELIX", "FINN", "FRIDA", "GINO", "GRETA", "HANA", "HUGO", "IDA", "IRIS",
    "IVAN", "JADE", "JONAS", "JUNO", "KAI", "KARL", "KIRA", "LARA", "LEO", "LILY", "LOLA", "LUNA", "MARCO", "MAYA",
    "MILO", "MIRA", "NINA", "NOAH", "NORA", "OLGA", "OMAR", "OSCAR", "OTTO", "PABLO", "PETRA", "PIA", "RITA", "ROMA",
    "ROSA", "RUBY", "SAM", "SARA", "SOFIA", "TARA", "TESS", "THEO", "TOM", "URSA", "VERA", "VICTOR", "YARA", "ZOE",
)  # fmt: skip
SHOP_KINDS = (
    "ART", "BAKERY", "BANK", "BAR", "BIKES", "BOOKS", "CAFE", "DELI", "FLOWERS", "GYM", "HOTEL", "MUSIC", "PETS",
    "PIZZA", "SALON", "SHOES", "SUSHI", "TEA", "TOYS", "WINE",
)  # fmt: skip
