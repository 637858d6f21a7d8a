-- The merged table, one row for each individual: every field's most probable value, without its probability.
SELECT * NOT LIKE '%_probability'
FROM (SELECT * REPLACE (round(confidence, 4) AS confidence) FROM read_parquet('individuals.parquet'))
ORDER BY n_databases DESC, n_records DESC, individual;
