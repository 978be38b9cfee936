-- Who did how much in the last 28 days, with the tokens that the API counted.
SELECT
  developer_id AS developer,
  COUNT(DISTINCT session_id) AS sessions,
  COUNT(DISTINCT DATE(timestamp)) AS days,
  COUNTIF(type = 'user') AS prompts,
  SUM(SAFE.INT64(message.usage.input_tokens)) AS input_tokens,
  SUM(SAFE.INT64(message.usage.output_tokens)) AS output_tokens
FROM `PROJECT.DATASET.TABLE_once`
WHERE timestamp >= TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 28 DAY)
GROUP BY developer
ORDER BY sessions DESC
