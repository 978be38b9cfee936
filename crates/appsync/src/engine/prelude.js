// What APPSYNC_JS gives a resolver: util, runtime, extensions and the helpers for DynamoDB.
//
// It is evaluated once per engine. It keeps its own references to what it needs of the language, removes from the global
// object what AppSync does not have, and freezes the rest, so that nothing that a resolver does outlives its call. Rust calls
// `define` once per resolver file and `run` for every handler: `run` takes a JSON text and returns one.
(function (host) {
  'use strict'

  const world = globalThis
  const { parse, stringify } = JSON
  const { Date, Map, WeakSet, Error, TypeError, String, Number, Math, Object, Array } = world
  const { freeze, keys, getOwnPropertyNames, getPrototypeOf, getOwnPropertySymbols, getOwnPropertyDescriptor, defineProperty } = Object
  const isArray = Array.isArray
  const dateParse = Date.parse
  const encode = encodeURIComponent
  const decode = decodeURIComponent

  // The state of the running call. Every call starts with a new one.
  let call = null
  // The factories of the resolver files, by number.
  const factories = new Map()

  // ---- leaving a handler ----------------------------------------------------------------------

  // A handler is left by throwing. Resolvers have no `catch`, so nothing stops it on the way.
  function leave(ending) {
    call.ending = ending
    throw call
  }

  function unsupported(name) {
    throw new TypeError(`${name} is not supported`)
  }

  const refusing = (name) => ({ get: () => unsupported(name), enumerable: true })

  function required(value, name, type) {
    if (typeof value !== type) throw new TypeError(`${name} needs a ${type}`)
    return value
  }

  function described(message, errorType, data, errorInfo) {
    return {
      message: message === undefined || message === null ? '' : String(message),
      errorType: errorType === undefined || errorType === null ? null : String(errorType),
      data: data === undefined ? null : data,
      errorInfo: errorInfo === undefined ? null : errorInfo,
    }
  }

  // ---- ids ------------------------------------------------------------------------------------

  const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
  const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
  const KSUID_EPOCH = 1400000000

  function autoUlid() {
    let text = ''
    let time = host.now()
    for (let i = 0; i < 10; i += 1) {
      text = CROCKFORD[time % 32] + text
      time = Math.floor(time / 32)
    }
    for (let i = 0; i < 16; i += 1) text += CROCKFORD[Math.floor(host.random() * 32)]
    return text
  }

  function autoKsuid() {
    const bytes = []
    let seconds = Math.floor(host.now() / 1000) - KSUID_EPOCH
    for (let i = 0; i < 4; i += 1) {
      bytes.unshift(seconds % 256)
      seconds = Math.floor(seconds / 256)
    }
    for (let i = 0; i < 16; i += 1) bytes.push(Math.floor(host.random() * 256))
    let text = ''
    let number = bytes
    while (text.length < 27) {
      let remainder = 0
      number = number.map((byte) => {
        const value = remainder * 256 + byte
        remainder = value % 62
        return Math.floor(value / 62)
      })
      text = BASE62[remainder] + text
    }
    return text
  }

  // ---- time -----------------------------------------------------------------------------------

  const two = (n) => String(n).padStart(2, '0')
  const three = (n) => String(n).padStart(3, '0')
  const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']
  const MONTHS = [
    'January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', 'December',
  ]

  // Minutes east of Greenwich. Of the named time zones only UTC is known.
  function offsetOf(zone) {
    if (zone === undefined || zone === null || zone === 'UTC' || zone === 'GMT' || zone === 'Z') return 0
    const text = String(zone).startsWith('UTC') || String(zone).startsWith('GMT') ? String(zone).slice(3) : String(zone)
    const sign = text[0] === '-' ? -1 : 1
    const digits = text.slice(1).split(':').join('')
    const hours = Number(digits.slice(0, 2))
    const minutes = Number(digits.slice(2, 4) || '0')
    if ((text[0] !== '+' && text[0] !== '-') || !(hours <= 18) || !(minutes < 60)) unsupported(`the time zone ${zone}`)
    return sign * (hours * 60 + minutes)
  }

  function offsetText(minutes, colon, zulu) {
    if (zulu && minutes === 0) return 'Z'
    const size = Math.abs(minutes)
    return (minutes < 0 ? '-' : '+') + two(Math.floor(size / 60)) + (colon ? ':' : '') + two(size % 60)
  }

  // A pattern of Java's DateTimeFormatter as a list of [letter, count] and literal texts.
  function patternOf(format) {
    const parts = []
    for (let i = 0; i < format.length; ) {
      const c = format[i]
      if (c === "'") {
        const end = format.indexOf("'", i + 1)
        if (end < 0) throw new TypeError(`the date format ${format} has an open quote`)
        parts.push(end === i + 1 ? "'" : format.slice(i + 1, end))
        i = end + 1
      } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
        let count = 1
        while (format[i + count] === c) count += 1
        parts.push([c, count])
        i += count
      } else {
        parts.push(c)
        i += 1
      }
    }
    return parts
  }

  function formatted(milliseconds, format, zone) {
    required(milliseconds, 'a time', 'number')
    const offset = offsetOf(zone)
    const date = new Date(milliseconds + offset * 60000)
    const hour = date.getUTCHours()
    return patternOf(required(format, 'a date format', 'string'))
      .map((part) => {
        if (typeof part === 'string') return part
        const [letter, count] = part
        switch (letter + count) {
          case 'y4': case 'u4': case 'Y4': case 'y1': case 'u1': return String(date.getUTCFullYear()).padStart(4, '0')
          case 'y2': case 'u2': return two(date.getUTCFullYear() % 100)
          case 'M4': return MONTHS[date.getUTCMonth()]
          case 'M3': return MONTHS[date.getUTCMonth()].slice(0, 3)
          case 'M2': return two(date.getUTCMonth() + 1)
          case 'M1': return String(date.getUTCMonth() + 1)
          case 'd2': return two(date.getUTCDate())
          case 'd1': return String(date.getUTCDate())
          case 'E4': return DAYS[date.getUTCDay()]
          case 'E1': case 'E2': case 'E3': return DAYS[date.getUTCDay()].slice(0, 3)
          case 'H2': return two(hour)
          case 'H1': return String(hour)
          case 'h2': return two(hour % 12 || 12)
          case 'h1': return String(hour % 12 || 12)
          case 'm2': return two(date.getUTCMinutes())
          case 'm1': return String(date.getUTCMinutes())
          case 's2': return two(date.getUTCSeconds())
          case 's1': return String(date.getUTCSeconds())
          case 'S1': case 'S2': case 'S3': return three(date.getUTCMilliseconds()).slice(0, count)
          case 'a1': return hour < 12 ? 'AM' : 'PM'
          case 'Z1': case 'Z2': case 'Z3': case 'x2': return offsetText(offset, false, false)
          case 'x3': return offsetText(offset, true, false)
          case 'X2': return offsetText(offset, false, true)
          case 'X3': return offsetText(offset, true, true)
          case 'X1': return offset % 60 === 0 && offset !== 0 ? offsetText(offset, false, false).slice(0, 3) : offsetText(offset, false, true)
          default: return unsupported(`the date format letter ${letter.repeat(count)}`)
        }
      })
      .join('')
  }

  function parsed(text, format, zone) {
    const fields = { y: 1970, M: 1, d: 1, H: 0, m: 0, s: 0, S: 0, a: null, zone: null }
    let rest = required(text, 'a timestamp', 'string')
    const fail = () => { throw new TypeError(`the timestamp ${text} does not fit ${format}`) }
    const digits = (most) => {
      let count = 0
      while (count < most && rest[count] >= '0' && rest[count] <= '9') count += 1
      if (count === 0) fail()
      const value = Number(rest.slice(0, count))
      rest = rest.slice(count)
      return value
    }
    for (const part of patternOf(required(format, 'a date format', 'string'))) {
      if (typeof part === 'string') {
        if (!rest.startsWith(part)) fail()
        rest = rest.slice(part.length)
        continue
      }
      const [letter, count] = part
      if (letter === 'y' || letter === 'u') fields.y = count === 2 ? 2000 + digits(2) : digits(4)
      else if (letter === 'M' && count >= 3) {
        const month = MONTHS.findIndex((name) => rest.startsWith(count === 4 ? name : name.slice(0, 3)))
        if (month < 0) fail()
        fields.M = month + 1
        rest = rest.slice(count === 4 ? MONTHS[month].length : 3)
      } else if (letter === 'S') fields.S = Number(String(digits(count)).padEnd(3, '0').slice(0, 3))
      else if ('MdHms'.includes(letter)) fields[letter] = digits(2)
      else if (letter === 'h') fields.H = digits(2) % 12
      else if (letter === 'a') {
        fields.a = rest.slice(0, 2).toUpperCase()
        rest = rest.slice(2)
      } else if (letter === 'Z' || letter === 'X' || letter === 'x') {
        let length = 0
        if (rest[0] === 'Z') length = 1
        else while (length < 6 && '+-0123456789:'.includes(rest[length] || ' ')) length += 1
        fields.zone = rest.slice(0, length)
        rest = rest.slice(length)
      } else unsupported(`the date format letter ${letter}`)
    }
    if (rest !== '') fail()
    if (fields.a === 'PM') fields.H += 12
    const milliseconds = Date.UTC(fields.y, fields.M - 1, fields.d, fields.H, fields.m, fields.s, fields.S)
    const zoned = fields.zone === null ? zone : fields.zone
    return milliseconds - offsetOf(zoned) * 60000
  }

  const time = {
    nowISO8601: () => new Date(host.now()).toISOString(),
    nowEpochSeconds: () => Math.floor(host.now() / 1000),
    nowEpochMilliSeconds: () => host.now(),
    nowFormatted: (format, zone) => formatted(host.now(), format, zone),
    parseFormattedToEpochMilliSeconds: (text, format, zone) => parsed(text, format, zone),
    parseISO8601ToEpochMilliSeconds: (text) => {
      const value = dateParse(required(text, 'util.time.parseISO8601ToEpochMilliSeconds', 'string'))
      if (value !== value) throw new TypeError(`${text} is not an ISO 8601 time`)
      return value
    },
    epochMilliSecondsToSeconds: (milliseconds) => Math.floor(required(milliseconds, 'a time', 'number') / 1000),
    epochMilliSecondsToISO8601: (milliseconds) => new Date(required(milliseconds, 'a time', 'number')).toISOString(),
    epochMilliSecondsToFormatted: (milliseconds, format, zone) => formatted(milliseconds, format, zone),
  }

  // ---- DynamoDB's types -----------------------------------------------------------------------

  // Values from toStringSet and the like. They are already typed.
  const typed = new WeakSet()
  const typedValue = (value) => {
    typed.add(value)
    return value
  }

  function toDynamoDB(value) {
    if (value === null || value === undefined) return { NULL: null }
    switch (typeof value) {
      case 'string': return { S: value }
      case 'number': return { N: value }
      case 'boolean': return { BOOL: value }
      case 'object': break
      default: throw new TypeError(`a ${typeof value} is not a value that DynamoDB can store`)
    }
    if (typed.has(value)) return value
    if (isArray(value)) return { L: value.map(toDynamoDB) }
    return { M: toMapValues(value) }
  }

  function toMapValues(object) {
    if (object === null || object === undefined) return null
    const out = { __proto__: null }
    for (const key of keys(object)) out[key] = toDynamoDB(object[key])
    return out
  }

  const nullable = (make) => (value) => (value === null || value === undefined ? null : make(value))

  const dynamodb = {
    toDynamoDB,
    toMapValues,
    toString: nullable((value) => ({ S: String(value) })),
    toNumber: nullable((value) => ({ N: value })),
    toBoolean: nullable((value) => ({ BOOL: value })),
    toBinary: nullable((value) => typedValue({ B: String(value) })),
    toNull: () => ({ NULL: null }),
    toList: nullable((value) => ({ L: value.map(toDynamoDB) })),
    toMap: nullable((value) => ({ M: toMapValues(value) })),
    toStringSet: nullable((list) => typedValue({ SS: list.map(String) })),
    toNumberSet: nullable((list) => typedValue({ NS: list.map(String) })),
    toBinarySet: nullable((list) => typedValue({ BS: list.map(String) })),
    toS3Object: (key, bucket, region, version) =>
      ({ S: stringify({ s3: { key, bucket, region, ...(version === undefined ? {} : { version }) } }) }),
    fromS3ObjectJson: (text) => parse(text).s3,
  }

  // ---- expressions ----------------------------------------------------------------------------

  const COMPARISONS = { eq: '=', ne: '<>', lt: '<', le: '<=', gt: '>', ge: '>=' }
  const FILTER_OPERATORS = [
    'eq', 'ne', 'lt', 'le', 'gt', 'ge', 'in', 'between', 'beginsWith', 'contains', 'notContains', 'attributeExists', 'attributeType',
  ]
  const ATTRIBUTE_TYPES = {
    string: 'S', stringSet: 'SS', number: 'N', numberSet: 'NS', binary: 'B', binarySet: 'BS', boolean: 'BOOL', list: 'L', map: 'M', _null: 'NULL',
  }

  function expressionWriter() {
    const expressionNames = { __proto__: null }
    const expressionValues = { __proto__: null }
    const clean = (text) => String(text).split('').map((c) => (/[A-Za-z0-9_]/.test(c) ? c : '_')).join('')
    return {
      expressionNames,
      expressionValues,
      name(attribute) {
        let placeholder = `#${clean(attribute)}`
        while (expressionNames[placeholder] !== undefined && expressionNames[placeholder] !== attribute) placeholder += '_'
        expressionNames[placeholder] = attribute
        return placeholder
      },
      value(hint, value) {
        const base = `:${clean(hint)}`
        let placeholder = base
        for (let n = 1; expressionValues[placeholder] !== undefined; n += 1) placeholder = `${base}_${n}`
        expressionValues[placeholder] = toDynamoDB(value)
        return placeholder
      },
      done(expression) {
        const out = { __proto__: null, expression }
        if (keys(expressionNames).length > 0) out.expressionNames = expressionNames
        if (keys(expressionValues).length > 0) out.expressionValues = expressionValues
        return out
      },
    }
  }

  function comparison(writer, path, hint, operator, operand) {
    const value = (suffix, v) => writer.value(`${hint}_${operator}${suffix}`, v)
    if (COMPARISONS[operator] !== undefined) return `${path} ${COMPARISONS[operator]} ${value('', operand)}`
    switch (operator) {
      case 'in': return `${path} IN (${operand.map((v, i) => value(`_${i}`, v)).join(', ')})`
      case 'between': return `${path} BETWEEN ${value('_0', operand[0])} AND ${value('_1', operand[1])}`
      case 'beginsWith': return `begins_with(${path}, ${value('', operand)})`
      case 'contains': return `contains(${path}, ${value('', operand)})`
      case 'notContains': return `NOT contains(${path}, ${value('', operand)})`
      case 'attributeExists': return operand ? `attribute_exists(${path})` : `attribute_not_exists(${path})`
      case 'attributeType': {
        const type = ATTRIBUTE_TYPES[operand]
        if (type === undefined) throw new TypeError(`${operand} is not an attribute type`)
        return `attribute_type(${path}, ${value('', type)})`
      }
      default: return unsupported(`the filter operator ${operator}`)
    }
  }

  function filterTerms(writer, filter, path, hint) {
    const terms = []
    for (const key of keys(filter)) {
      const operand = filter[key]
      if (operand === null || operand === undefined) continue
      if (path === '' && (key === 'and' || key === 'or')) {
        const list = isArray(operand) ? operand : [operand]
        const parts = list.map((part) => joined(filterTerms(writer, part, '', ''))).filter((part) => part !== '')
        if (parts.length > 0) terms.push(parts.map((part) => `(${part})`).join(key === 'and' ? ' AND ' : ' OR '))
      } else if (path === '' && key === 'not') {
        terms.push(`NOT (${joined(filterTerms(writer, operand, '', ''))})`)
      } else if (path !== '' && FILTER_OPERATORS.includes(key)) {
        terms.push(comparison(writer, path, hint, key, operand))
      } else if (typeof operand === 'object' && !isArray(operand)) {
        const placeholder = writer.name(key)
        const inner = path === '' ? placeholder : `${path}.${placeholder}`
        for (const term of filterTerms(writer, operand, inner, hint === '' ? key : `${hint}_${key}`)) terms.push(term)
      } else unsupported(`the filter operator ${key}`)
    }
    return terms
  }

  const joined = (terms) => (terms.length === 1 ? terms[0] : terms.map((term) => `(${term})`).join(' AND '))

  function filterExpression(filter) {
    const writer = expressionWriter()
    const expression = joined(filterTerms(writer, filter, '', ''))
    return expression === '' ? null : writer.done(expression)
  }

  function pathOf(writer, path) {
    return path
      .split('.')
      .map((step) => {
        const bracket = step.indexOf('[')
        return bracket < 0 ? writer.name(step) : writer.name(step.slice(0, bracket)) + step.slice(bracket)
      })
      .join('.')
  }

  function projectionOf(list) {
    const writer = expressionWriter()
    return { expression: list.map((path) => pathOf(writer, path)).join(', '), expressionNames: writer.expressionNames }
  }

  // ---- @aws-appsync/utils/dynamodb ------------------------------------------------------------

  const operation = (_type, payload) => freeze({ __operation: _type, ...payload })
  const operations = {
    add: (value) => operation('add', { value }),
    replace: (value) => operation('replace', { value }),
    remove: () => operation('remove', {}),
    increment: (by) => operation('increment', { value: by === undefined ? 1 : by }),
    decrement: (by) => operation('decrement', { value: by === undefined ? 1 : by }),
    append: (value) => operation('append', { value }),
    prepend: (value) => operation('prepend', { value }),
    updateListItem: (value, index) => operation('updateListItem', { value, index }),
  }

  function updateExpression(update) {
    const writer = expressionWriter()
    const set = []
    const remove = []
    const visit = (path, hint, value) => {
      if (value === undefined) return
      const kind = value !== null && typeof value === 'object' ? value.__operation : undefined
      const operand = () => writer.value(hint, value.value)
      switch (kind) {
        case 'add': case 'replace': set.push(`${path} = ${operand()}`); return
        case 'remove': remove.push(path); return
        case 'increment': set.push(`${path} = ${path} + ${operand()}`); return
        case 'decrement': set.push(`${path} = ${path} - ${operand()}`); return
        case 'append': set.push(`${path} = list_append(${path}, ${operand()})`); return
        case 'prepend': set.push(`${path} = list_append(${operand()}, ${path})`); return
        case 'updateListItem': set.push(`${path}[${value.index}] = ${operand()}`); return
        default:
      }
      if (isArray(value) && value.some((item) => item !== null && typeof item === 'object' && item.__operation !== undefined)) {
        for (const item of value) visit(path, hint, item)
      } else if (value !== null && typeof value === 'object' && !isArray(value) && !typed.has(value)) {
        for (const key of keys(value)) visit(`${path}.${writer.name(key)}`, `${hint}_${key}`, value[key])
      } else set.push(`${path} = ${writer.value(hint, value)}`)
    }
    for (const key of keys(update)) visit(writer.name(key), key, update[key])
    const parts = []
    if (set.length > 0) parts.push(`SET ${set.join(', ')}`)
    if (remove.length > 0) parts.push(`REMOVE ${remove.join(', ')}`)
    return writer.done(parts.join(' '))
  }

  function keyExpression(query) {
    const writer = expressionWriter()
    return writer.done(filterTerms(writer, query, '', '').join(' AND '))
  }

  const present = (object) => {
    const out = { __proto__: null }
    for (const key of keys(object)) if (object[key] !== undefined && object[key] !== null) out[key] = object[key]
    return out
  }
  const conditional = (condition) => (condition === undefined || condition === null ? undefined : filterExpression(condition))
  const projected = (list) => (list === undefined || list === null ? undefined : projectionOf(list))

  function refuseVersioned(payload) {
    for (const name of ['_version', 'customPartitionKey', 'populateIndexFields']) {
      if (payload[name] !== undefined) unsupported(`${name} (a versioned data source)`)
    }
  }

  function pages({ index, limit, nextToken, consistentRead, scanIndexForward, select, filter, projection }) {
    return {
      index, limit, nextToken, consistentRead, scanIndexForward, select, filter: conditional(filter), projection: projected(projection),
    }
  }

  function tablesOf(tables, make) {
    const out = { __proto__: null }
    for (const name of keys(tables)) out[name] = make(tables[name])
    return out
  }

  const ddb = {
    get: ({ key, consistentRead, projection }) =>
      present({ operation: 'GetItem', key: toMapValues(key), consistentRead, projection: projected(projection) }),
    put: (payload) => {
      refuseVersioned(payload)
      return present({
        operation: 'PutItem', key: toMapValues(payload.key), attributeValues: toMapValues(payload.item), condition: conditional(payload.condition),
      })
    },
    update: (payload) => {
      refuseVersioned(payload)
      return present({
        operation: 'UpdateItem', key: toMapValues(payload.key), update: updateExpression(payload.update), condition: conditional(payload.condition),
      })
    },
    remove: (payload) => {
      refuseVersioned(payload)
      return present({ operation: 'DeleteItem', key: toMapValues(payload.key), condition: conditional(payload.condition) })
    },
    query: (payload) => present({ operation: 'Query', query: keyExpression(payload.query), ...pages(payload) }),
    scan: (payload) =>
      present({ operation: 'Scan', totalSegments: payload.totalSegments, segment: payload.segment, ...pages(payload) }),
    batchGet: ({ tables }) => ({
      operation: 'BatchGetItem',
      tables: tablesOf(tables, ({ keys: list, consistentRead, projection }) =>
        present({ keys: list.map(toMapValues), consistentRead, projection: projected(projection) })),
    }),
    batchPut: ({ tables }) => ({ operation: 'BatchPutItem', tables: tablesOf(tables, (list) => list.map(toMapValues)) }),
    batchDelete: ({ tables }) => ({ operation: 'BatchDeleteItem', tables: tablesOf(tables, (list) => list.map(toMapValues)) }),
    transactGet: ({ items }) => ({
      operation: 'TransactGetItems',
      transactItems: items.map(({ table, key, projection }) => present({ table, key: toMapValues(key), projection: projected(projection) })),
    }),
    transactWrite: ({ items }) => ({
      operation: 'TransactWriteItems',
      transactItems: items.map((entry) => {
        const { putItem, updateItem, deleteItem, conditionCheck } = entry
        const item = putItem || updateItem || deleteItem || conditionCheck
        if (!item) unsupported(`the transaction item ${keys(entry).join(', ')}`)
        return present({
          table: item.table,
          operation: putItem ? 'PutItem' : updateItem ? 'UpdateItem' : deleteItem ? 'DeleteItem' : 'ConditionCheck',
          key: toMapValues(item.key),
          attributeValues: putItem ? toMapValues(item.item) : undefined,
          update: updateItem ? updateExpression(item.update) : undefined,
          condition: conditional(item.condition),
        })
      }),
    }),
    operations,
    toStringSet: dynamodb.toStringSet,
    toNumberSet: dynamodb.toNumberSet,
    toBinarySet: dynamodb.toBinarySet,
  }

  // ---- subscription filters -------------------------------------------------------------------

  // Filters as a list of groups. A group is a list of filters that must all hold; one group is enough.
  function filterGroups(object, ignored) {
    let groups = [[]]
    const and = (others) => { groups = groups.flatMap((group) => others.map((other) => [...group, ...other])) }
    for (const key of keys(object)) {
      const operand = object[key]
      if (operand === null || operand === undefined || ignored.includes(key)) continue
      if (key === 'and') for (const part of isArray(operand) ? operand : [operand]) and(filterGroups(part, ignored))
      else if (key === 'or') and((isArray(operand) ? operand : [operand]).flatMap((part) => filterGroups(part, ignored)))
      else and([keys(operand).map((operator) => ({ fieldName: key, operator, value: operand[operator] }))])
    }
    return groups
  }

  function toSubscriptionFilter(object, ignoredFields, rules) {
    let groups = filterGroups(object || {}, ignoredFields || [])
    if (rules !== undefined && rules !== null) {
      const alternatives = keys(rules).flatMap((key) => filterGroups({ [key]: rules[key] }, []))
      if (alternatives.length > 0) groups = groups.flatMap((group) => alternatives.map((rule) => [...group, ...rule]))
    }
    return { filterGroup: groups.filter((filters) => filters.length > 0).map((filters) => ({ filters })) }
  }

  // ---- util, runtime, extensions --------------------------------------------------------------

  const ESCAPES = { "'": "\\'", '"': '\\"', '\\': '\\\\', '/': '\\/', '\b': '\\b', '\n': '\\n', '\t': '\\t', '\f': '\\f', '\r': '\\r' }

  const util = {
    error: (message, errorType, data, errorInfo) => leave({ kind: 'error', error: described(message, errorType, data, errorInfo) }),
    appendError: (message, errorType, data, errorInfo) => {
      if (call.errors.length >= host.maxErrors) throw new TypeError(`a handler may append at most ${host.maxErrors} errors`)
      call.errors.push(described(message, errorType, data, errorInfo))
    },
    unauthorized: () => leave({ kind: 'unauthorized' }),
    authType: () => call.authType,
    autoId: () => host.uuid(),
    autoUlid,
    autoKsuid,
    matches: (pattern, value) => host.matches(required(pattern, 'util.matches', 'string'), required(value, 'util.matches', 'string')),
    escapeJavaScript: (value) =>
      String(value).split('').map((c) => {
        if (ESCAPES[c] !== undefined) return ESCAPES[c]
        const code = c.charCodeAt(0)
        return code < 32 || code > 127 ? `\\u${code.toString(16).toUpperCase().padStart(4, '0')}` : c
      }).join(''),
    urlEncode: (value) =>
      encode(String(value)).replace(/[!'()~]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`).replace(/%20/g, '+'),
    urlDecode: (value) => decode(String(value).replace(/\+/g, ' ')),
    base64Encode: (value) => host.base64Encode(String(value)),
    base64Decode: (value) => host.base64Decode(String(value)),
    time,
    dynamodb,
    str: { normalize: (value, form) => String(value).normalize(String(form).toUpperCase()) },
    math: {
      roundNum: (value) => Math.round(value),
      minVal: (a, b) => Math.min(a, b),
      maxVal: (a, b) => Math.max(a, b),
      randomDouble: () => host.random(),
      randomWithinRange: (start, end) => Math.floor(start + host.random() * (end - start)),
    },
    transform: {
      toDynamoDBFilterExpression: (filter) => stringify(filterExpression(filter)),
      toDynamoDBConditionExpression: (filter) => stringify(filterExpression(filter)),
      toSubscriptionFilter,
    },
  }
  for (const name of ['rds', 'http', 'xml']) defineProperty(util, name, refusing(`util.${name}`))
  defineProperty(util.transform, 'toElasticsearchQueryDSL', refusing('util.transform.toElasticsearchQueryDSL'))

  const runtime = {
    earlyReturn: (value, options) =>
      leave({ kind: 'early', value: value === undefined ? null : value, skipTo: options && options.skipTo === 'END' ? 'END' : 'NEXT' }),
  }

  const extensions = {
    setSubscriptionFilter: (filter) => { call.filter = filter },
    setSubscriptionInvalidationFilter: (filter) => { call.invalidationFilter = filter },
    invalidateSubscriptions: (target) => { call.invalidations.push(target) },
  }
  defineProperty(extensions, 'evictFromApiCache', refusing('extensions.evictFromApiCache (there is no cache)'))

  // The place in a resolver file that called into the prelude, as `file:line:column`. The column is that of an argument.
  function caller() {
    const lines = new Error().stack.split('\n').filter((line) => line.includes('(') && !line.includes('appsync-prelude.js'))
    return lines.length === 0 ? '' : lines[0].slice(lines[0].lastIndexOf('(') + 1, lines[0].lastIndexOf(')'))
  }

  const text = (values) => values.map((value) => (typeof value === 'string' ? value : stringify(value))).join(' ')
  const console = {}
  for (const level of ['log', 'error']) {
    console[level] = (...values) => {
      host.log(level, text(values))
      if (call.logs.length >= host.maxLogs) return
      const shown = values.map((value) => (value === undefined ? 'undefined' : stringify(value))).join(' ')
      call.logs.push(`${level === 'error' ? 'ERROR' : 'INFO'} - ${caller()}: ${shown}`)
    }
  }

  const modules = {
    '@aws-appsync/utils': { util, runtime, extensions },
    '@aws-appsync/utils/dynamodb': ddb,
  }

  // ---- what is left of the language -----------------------------------------------------------

  const KEPT = [
    'Object', 'Array', 'String', 'Number', 'Boolean', 'Math', 'JSON', 'NaN', 'Infinity', 'undefined', 'parseInt', 'parseFloat', 'isNaN',
    'isFinite', 'encodeURI', 'encodeURIComponent', 'decodeURI', 'decodeURIComponent',
  ]

  // Freezes a value and every object that can be reached from it.
  const reached = new WeakSet()
  function freezeAll(value) {
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null || reached.has(value)) return
    reached.add(value)
    for (const key of [...getOwnPropertyNames(value), ...getOwnPropertySymbols(value)]) {
      const property = getOwnPropertyDescriptor(value, key)
      freezeAll(property.value)
      freezeAll(property.get)
      freezeAll(property.set)
    }
    freezeAll(getPrototypeOf(value))
    freeze(value)
  }

  // Through `constructor` a function could make functions from text. This removes it.
  const noConstructor = { value: undefined, writable: false, enumerable: false, configurable: false }
  for (const example of [function () {}, function* () {}, async function () {}, async function* () {}]) {
    defineProperty(getPrototypeOf(example), 'constructor', noConstructor)
  }
  Math.random = host.random
  const everything = getOwnPropertyNames(world).map((name) => world[name])
  for (const name of getOwnPropertyNames(world)) {
    if (!KEPT.includes(name) && name !== 'globalThis') delete world[name]
  }
  world.util = util
  world.runtime = runtime
  world.extensions = extensions
  world.console = console
  // Rust calls these two by name. Resolver files that use these names are refused.
  world.__appsync_run = run
  world.__appsync_define = define
  delete world.globalThis
  for (const value of everything) freezeAll(value)
  freezeAll(modules)
  freezeAll(world)

  // ---- the way in -----------------------------------------------------------------------------

  function define(script, factory) {
    factories.set(script, factory)
  }

  function run(script, handler, authType, json) {
    const factory = factories.get(script)
    const ctx = parse(json)
    ctx.args = ctx.arguments
    const { stash } = ctx
    call = { ending: null, errors: [], authType, filter: undefined, invalidationFilter: undefined, invalidations: [], logs: [] }
    const current = call
    let text
    try {
      const value = factory(modules)[handler](ctx)
      current.ending = { kind: 'return', value: value === undefined ? null : value }
      text = answer(current, ctx, stash)
    } catch (thrown) {
      if (thrown !== current) throw thrown
      text = answer(current, ctx, stash)
    }
    call = null
    return text
  }

  function answer(current, ctx, stash) {
    const { ending, errors, filter, invalidationFilter, invalidations, logs } = current
    return stringify({ ...ending, stash: ctx.stash === undefined ? stash : ctx.stash, errors, filter, invalidationFilter, invalidations, logs })
  }
})
