-- How many individuals each two databases share; the diagonal is how many each of them holds.
WITH held AS (SELECT DISTINCT database, individual FROM read_parquet('assignments.parquet'))
SELECT a.database AS database_a, b.database AS database_b, count(*) AS individuals
FROM held AS a JOIN held AS b USING (individual)
WHERE a.database <= b.database
GROUP BY ALL
ORDER BY database_a, database_b;
