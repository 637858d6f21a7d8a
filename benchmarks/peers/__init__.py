"""Other tools and the machine's own floor, as commands that read CSV files and write clusters as Parquet."""
