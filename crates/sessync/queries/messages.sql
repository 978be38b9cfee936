-- What was said in the last day, in order. Content is a text, or a list of parts of which some are texts.
SELECT
  timestamp,
  session_id,
  developer_id AS developer,
  LAX_STRING(message.role) AS role,
  COALESCE(
    LAX_STRING(message.content),
    (
      SELECT STRING_AGG(LAX_STRING(part.text), '\n' ORDER BY position)
      FROM UNNEST(JSON_QUERY_ARRAY(message, '$.content')) AS part WITH OFFSET AS position
      WHERE LAX_STRING(part.type) = 'text'
    )
  ) AS text
FROM `PROJECT.DATASET.TABLE_once`
WHERE timestamp >= TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 1 DAY)
  AND type IN ('user', 'assistant')
  AND NOT IFNULL(is_sidechain, FALSE)
ORDER BY session_id, timestamp
