-- Activity by hour of the day over the last 28 days, in one time zone.
SELECT
  EXTRACT(HOUR FROM timestamp AT TIME ZONE 'Asia/Tokyo') AS hour,
  COUNT(*) AS entries,
  COUNT(DISTINCT session_id) AS sessions,
  COUNT(DISTINCT developer_id) AS developers
FROM `PROJECT.DATASET.TABLE_once`
WHERE timestamp >= TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 28 DAY)
GROUP BY hour
ORDER BY hour
