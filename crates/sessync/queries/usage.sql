-- Tokens and costs of the last 28 days per day, project and model; sub-agents apart.
SELECT
  DATE(timestamp) AS day,
  project_name AS project,
  model,
  is_subagent,
  COUNT(*) AS responses,
  SUM(input_tokens) AS input_tokens,
  SUM(output_tokens) AS output_tokens,
  SUM(cache_read_tokens) AS cache_read_tokens,
  SUM(cache_creation_tokens) AS cache_creation_tokens,
  ROUND(SUM(cost_usd), 2) AS cost_usd
FROM `PROJECT.DATASET.TABLE_usage`
WHERE timestamp >= TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 28 DAY)
GROUP BY day, project, model, is_subagent
ORDER BY day DESC, cost_usd DESC
