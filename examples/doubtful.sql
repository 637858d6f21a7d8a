-- The links that are nearest to a toss-up, in either direction.
SELECT database_a, id_a, database_b, id_b, round(probability, 4) AS probability
FROM read_parquet('links.parquet')
ORDER BY abs(probability - 0.5), database_a, id_a, database_b, id_b
LIMIT 10;
