-- Which tools were used how often in the last 28 days.
SELECT
  LAX_STRING(part.name) AS tool,
  COUNT(*) AS uses,
  COUNT(DISTINCT session_id) AS sessions,
  COUNT(DISTINCT developer_id) AS developers
FROM `PROJECT.DATASET.TABLE_once`, UNNEST(JSON_QUERY_ARRAY(message, '$.content')) AS part
WHERE timestamp >= TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 28 DAY)
  AND type = 'assistant'
  AND LAX_STRING(part.type) = 'tool_use'
GROUP BY tool
ORDER BY uses DESC
