-- Sessions of the last 7 days: when, who, where, how long, how much was said.
SELECT
  session_id,
  ANY_VALUE(developer_id) AS developer,
  ANY_VALUE(project_name) AS project,
  ANY_VALUE(git_branch) AS branch,
  MIN(timestamp) AS began,
  TIMESTAMP_DIFF(MAX(timestamp), MIN(timestamp), MINUTE) AS minutes,
  COUNTIF(type = 'user') AS from_user,
  COUNTIF(type = 'assistant') AS from_assistant
FROM `PROJECT.DATASET.TABLE_once`
WHERE timestamp >= TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 7 DAY)
GROUP BY session_id
ORDER BY began DESC
