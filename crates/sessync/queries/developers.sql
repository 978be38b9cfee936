-- Who did how much in the last 28 days, with the tokens of each response counted once.
WITH tokens AS (
  SELECT
    developer_id,
    SUM(input_tokens) AS input_tokens,
    SUM(output_tokens) AS output_tokens,
    SUM(cache_read_tokens) AS cache_read_tokens,
    SUM(cache_creation_tokens) AS cache_creation_tokens,
    ROUND(SUM(cost_usd), 2) AS cost_usd
  FROM `PROJECT.DATASET.TABLE_usage`
  WHERE timestamp >= TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 28 DAY)
  GROUP BY developer_id
),
work AS (
  SELECT
    developer_id,
    COUNT(DISTINCT session_id) AS sessions,
    COUNT(DISTINCT DATE(timestamp)) AS days,
    COUNTIF(type = 'user') AS prompts
  FROM `PROJECT.DATASET.TABLE_once`
  WHERE timestamp >= TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 28 DAY)
  GROUP BY developer_id
)
SELECT developer_id AS developer, * EXCEPT (developer_id)
FROM work
LEFT JOIN tokens USING (developer_id)
ORDER BY sessions DESC
