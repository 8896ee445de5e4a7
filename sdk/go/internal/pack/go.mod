module github.com/keywork/keywork/sdk/go/internal/pack

go 1.25.0

require golang.org/x/mod v0.38.0
