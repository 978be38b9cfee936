-- What went wrong in the last 7 days: tool results that say they are errors.
SELECT
  timestamp,
  session_id,
  developer_id AS developer,
  git_branch,
  LAX_STRING(part.tool_use_id) AS tool_use,
  COALESCE(LAX_STRING(part.content), TO_JSON_STRING(part.content)) AS error
FROM `PROJECT.DATASET.TABLE_once`, UNNEST(JSON_QUERY_ARRAY(message, '$.content')) AS part
WHERE timestamp >= TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 7 DAY)
  AND LAX_STRING(part.type) = 'tool_result'
  AND LAX_BOOL(part.is_error)
ORDER BY timestamp DESC
